//! Checks of recommended records: mail works without them, but less well.

use mailapi_backend::DnsError;
use mailapi_model::EmailAddress;

use super::tags::Tags;
use super::{Context, RecordCheck, RecordStatus, texts};
use crate::dns_names::is_name;
use crate::domains::hosted::policy_id;

/// Checks the records about TLS.
pub(super) async fn policies(context: &Context<'_>) -> Vec<RecordCheck> {
    let (sts, reports) = tokio::join!(mta_sts(context), tls_rpt(context));
    vec![sts, reports]
}

/// Checks the announcement of a policy that makes other servers require TLS (RFC 8461 section 3.1).
async fn mta_sts(context: &Context<'_>) -> RecordCheck {
    let name = format!("_mta-sts.{}", context.domain);
    let check = RecordCheck::required("MTA-STS", name, format!("v=STSv1; id={}", policy_id(context.host))).advised();
    // An id of other characters makes senders ignore the record.
    let is_id = |id: &str| matches!(id.len(), 1..=32) && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    tagged(
        context,
        check,
        ("STSv1", "id"),
        is_id,
        "The record lets other servers require TLS. Publish it after the policy can be read at the host mta-sts.",
    )
    .await
}

/// Checks the address for reports of TLS failures (RFC 8460 section 3).
async fn tls_rpt(context: &Context<'_>) -> RecordCheck {
    let name = format!("_smtp._tls.{}", context.domain);
    let expected = format!("v=TLSRPTv1; rua=mailto:postmaster@{}", context.domain);
    let check = RecordCheck::required("TLS-RPT", name, expected).advised();
    let purpose = "The record lets other servers report TLS failures to you.";
    tagged(context, check, ("TLSRPTv1", "rua"), are_recipients, purpose).await
}

async fn tagged(
    context: &Context<'_>,
    check: RecordCheck,
    (version, tag): (&str, &str),
    is_value: impl Fn(&str) -> bool,
    purpose: &str,
) -> RecordCheck {
    let found = match texts(context.dns, &check.name).await {
        Err(error) => return check.unanswered(&error),
        Ok(found) => found,
    };
    // Records that begin otherwise do not count; of several others, none does (RFC 8461 section 3.1, RFC 8460 section 3).
    let records: Vec<_> = found.iter().map(|text| Tags::of(text)).filter(|tags| tags.has_version(version)).collect();
    let (status, hint) = match &records[..] {
        [] if found.is_empty() => (RecordStatus::Missing, purpose.to_owned()),
        [tags] if tags.get(tag).is_some_and(is_value) => (RecordStatus::Ok, purpose.to_owned()),
        [_] => (RecordStatus::Mismatch, format!("{purpose} Its {tag}= is missing or invalid.")),
        [] => (RecordStatus::Mismatch, purpose.to_owned()),
        _ => (RecordStatus::Mismatch, format!("{purpose} Others ignore several records; keep one.")),
    };
    check.with(status, found, hint)
}

/// Returns whether reports can go to all addresses of a list.
fn are_recipients(list: &str) -> bool {
    list.split(',').all(|recipient| {
        let recipient = recipient.trim();
        let of = |scheme: &str| {
            recipient
                .get(..scheme.len())
                .filter(|start| start.eq_ignore_ascii_case(scheme))
                .map(|_| &recipient[scheme.len()..])
        };
        let is_mailbox = |address: &str| address.parse::<EmailAddress>().is_ok();
        let is_page = |rest: &str| rest.split(['/', '?', ':']).next().is_some_and(is_name);
        of("mailto:").is_some_and(is_mailbox) || of("https://").is_some_and(is_page)
    })
}

/// Checks that the sending addresses resolve to the server's name.
pub(in crate::domains) async fn ptr(context: &Context<'_>) -> Vec<RecordCheck> {
    if let Some(hint) = context.name_to_set() {
        let check = RecordCheck::required("PTR", context.host.to_owned(), String::new()).advised();
        return vec![check.with(RecordStatus::Missing, Vec::new(), hint)];
    }
    let expected = context.host.to_owned();
    let addresses = match &context.addresses {
        Ok(addresses) if !addresses.is_empty() => addresses,
        answer => {
            let check = RecordCheck::required("PTR", context.host.to_owned(), expected).advised();
            let hint = format!("{} has no address in DNS, so the sending address is unknown.", context.host);
            return vec![match answer {
                Ok(_) => check.with(RecordStatus::Missing, Vec::new(), hint),
                Err(error) => check.unanswered(error),
            }];
        }
    };
    let mut checks = Vec::new();
    for address in addresses {
        let check = RecordCheck::required("PTR", address.to_string(), expected.clone()).advised();
        let hint = "Ask the provider of the address to set the server's name; many receivers reject mail without it.";
        checks.push(match context.dns.names_of(*address).await {
            Err(DnsError::NoSuchName) => check.with(RecordStatus::Missing, Vec::new(), hint),
            Err(error) => check.unanswered(&error),
            Ok(found) if found.is_empty() => check.with(RecordStatus::Missing, found, hint),
            Ok(found) if found.iter().any(|name| name.eq_ignore_ascii_case(context.host)) => {
                check.with(RecordStatus::Ok, found, "The address resolves to the server's name.")
            }
            Ok(found) => check.with(RecordStatus::Mismatch, found, hint),
        });
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_go_to_mailboxes_and_pages() {
        for list in ["mailto:a@example.org", "https://r.example.org/v1/tls", "MAILTO:a@example.org, https://x.example"]
        {
            assert!(are_recipients(list), "{list}");
        }
        for list in
            ["", "x", "a@example.org", "mailto:", "mailto:nonsense", "http://x.example/", "mailto:a@example.org,"]
        {
            assert!(!are_recipients(list), "{list}");
        }
    }
}
