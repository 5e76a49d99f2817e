//! Checks the records of the keys that the mail ports show (TLSA, RFC 7672).

use mailapi_model::{KeyDigests, RecordData, TlsaRecord};

use super::{Context, RecordCheck, RecordStatus};
use crate::MailPrograms;
use crate::domains::server_keys::{mail_ports, record_name};

/// Checks the records of both keys at each port. Others believe only signed records, so without DNSSEC there are none.
pub(in crate::domains) async fn check(
    context: &Context<'_>,
    keys: Option<KeyDigests>,
    programs: MailPrograms,
) -> Vec<RecordCheck> {
    let Some(keys) = keys.filter(|_| context.has_own_host()) else { return Vec::new() };
    let is_signed = context.dns.mx_with_proof(context.domain.as_str()).await.is_ok_and(|found| found.is_proven);
    if !is_signed {
        return Vec::new();
    }
    let mut checks = Vec::new();
    for port in mail_ports(programs) {
        let found = context.dns.tlsa(context.host, port).await.map(|found| found.map(|found| found.records));
        for (digest, is_in_use) in [(keys.current, true), (keys.next, false)] {
            let wanted = TlsaRecord::of_key(digest);
            let check = RecordCheck::required("TLSA", record_name(context.host, port), shown(&wanted));
            checks.push(match &found {
                Err(error) => check.advised().unanswered(error),
                Ok(found) => judged(check, &wanted, found.as_deref().unwrap_or_default(), is_in_use),
            });
        }
    }
    checks
}

/// Mail works without a record, and not with those of other keys alone.
fn judged(check: RecordCheck, wanted: &TlsaRecord, found: &[TlsaRecord], is_in_use: bool) -> RecordCheck {
    let values = found.iter().map(shown).collect();
    let purpose = match is_in_use {
        true => "Other servers verify the key of this server by the record (DANE).",
        false => "The next certificate gets this key, as soon as other servers know its record.",
    };
    match () {
        () if found.contains(wanted) => check.advised().with(RecordStatus::Ok, values, purpose),
        () if is_in_use && !found.is_empty() && found.iter().all(names_a_key) => {
            let hint = "The records are for other keys, so servers that use DANE deliver no mail here. Replace them.";
            check.with(RecordStatus::Mismatch, values, hint)
        }
        () => check.advised().with(RecordStatus::Missing, values, purpose),
    }
}

/// Whether a record is for one key or certificate, and not for those of an authority (RFC 7672 section 3.1).
const fn names_a_key(record: &TlsaRecord) -> bool {
    record.usage == 3
}

fn shown(record: &TlsaRecord) -> String {
    RecordData::Tlsa(record.clone()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_other_keys_alone_stop_mail() {
        let [wanted, other] = [1, 2].map(|octet| TlsaRecord::of_key([octet; 32]));
        let authority = TlsaRecord { usage: 2, ..TlsaRecord::of_key([3; 32]) };
        let of = |found: &[TlsaRecord], is_in_use| {
            let check = RecordCheck::required("TLSA", "_25._tcp.mx.example.org".to_owned(), shown(&wanted));
            let check = judged(check, &wanted, found, is_in_use);
            (check.status, check.required)
        };
        assert_eq!(of(&[], true), (RecordStatus::Missing, false));
        assert_eq!(of(&[other.clone(), wanted.clone()], true), (RecordStatus::Ok, false));
        assert_eq!(of(std::slice::from_ref(&other), true), (RecordStatus::Mismatch, true));
        assert_eq!(of(&[other.clone(), authority], true), (RecordStatus::Missing, false));
        assert_eq!(
            of(std::slice::from_ref(&other), false),
            (RecordStatus::Missing, false),
            "the next key may come later"
        );
    }
}
