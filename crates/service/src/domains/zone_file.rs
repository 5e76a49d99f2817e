//! Records in the syntax of master files (RFC 1035 section 5).

use mailapi_model::{DomainName, RecordData};

use super::dns::{Publication, WantedRecord};

/// Formats the records to paste into the zone. Names are absolute, so the zone's origin does not matter.
///
/// A record is a comment if DNS has, or may have, another one in its place: of two SPF or DMARC policies, receivers use
/// none, and a second MX sends a part of the mail elsewhere.
pub(super) fn zone_file(domain: &DomainName, records: &[WantedRecord]) -> String {
    let heading = format!("; DNS records for mail of {domain}\n");
    records.iter().fold(heading, |file, record| file + &entry(record))
}

fn entry(record: &WantedRecord) -> String {
    let Some(value) = &record.value else {
        return comment(&format!("{} {}: {}", record.purpose, record.name, record.hint));
    };
    let line = line(record, value);
    match why_not(record, value) {
        Some(why) => comment(why) + &comment(&line),
        None if is_unanswered(record) => comment("Not checked, since the DNS look-up failed:") + &line + "\n",
        None => line + "\n",
    }
}

/// The reason why the record must not be pasted into the zone.
fn why_not(record: &WantedRecord, value: &str) -> Option<&'static str> {
    let is_published = || record.found.iter().any(|found| is_same(found, value));
    match record.status {
        _ if record.record_type == "PTR" => Some("For the provider of the address, who has its zone:"),
        _ if is_unanswered(record) && is_alone(record) => {
            Some("The DNS look-up failed. Only if none is published, since a second one does harm:")
        }
        _ if record.found.is_empty() => None,
        Publication::Found | Publication::Unknown if is_published() => None,
        Publication::Found => Some("Not needed, since a published record has the same effect:"),
        Publication::Different => Some("In place of the published record, which differs:"),
        Publication::Missing | Publication::Unknown => Some("Only if the published record is not right:"),
    }
}

/// Whether the look-up of the record failed. A published record of unknown effect was looked up.
fn is_unanswered(record: &WantedRecord) -> bool {
    record.status == Publication::Unknown && record.found.is_empty()
}

/// Whether a second record at the same name does harm.
fn is_alone(record: &WantedRecord) -> bool {
    ["MX", "SPF", "DMARC"].contains(&record.purpose)
}

/// Whether a published value is the wanted one. The final dot of a host name is not part of published values.
fn is_same(found: &str, value: &str) -> bool {
    found == value || value.strip_suffix('.').is_some_and(|value| value.eq_ignore_ascii_case(found))
}

fn line(record: &WantedRecord, value: &str) -> String {
    let WantedRecord { name, record_type, .. } = record;
    // Verifiers join the strings of a text without spaces (RFC 7208 section 3.3).
    let data = if *record_type == "TXT" { RecordData::text(value).to_string() } else { value.to_owned() };
    format!("{name}. {} IN {record_type} {data}", WantedRecord::TTL_SECONDS)
}

/// A comment, which ends with the line.
fn comment(text: &str) -> String {
    format!("; {}\n", text.replace(char::is_control, " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(status: Publication, found: &[&str]) -> WantedRecord {
        WantedRecord {
            record_type: "TXT",
            name: "example.org".to_owned(),
            value: Some("v=spf1 mx -all".to_owned()),
            purpose: "SPF",
            required: true,
            status,
            found: found.iter().map(ToString::to_string).collect(),
            hint: "a\nevil.example. 3600 IN A 192.0.2.1".to_owned(),
        }
    }

    #[test]
    fn no_second_policy_is_pasted_beside_a_published_one() {
        let line = "example.org. 3600 IN TXT \"v=spf1 mx -all\"\n";
        for (status, found, is_pasted) in [
            (Publication::Missing, &[][..], true),
            (Publication::Unknown, &[], false),
            (Publication::Unknown, &["v=spf1 mx -all"], true),
            (Publication::Found, &["v=spf1 mx -all"], true),
            (Publication::Found, &["v=spf1 +mx -all"], false),
            (Publication::Different, &["v=spf1 -all"], false),
            (Publication::Different, &["v=spf1 mx -all", "v=spf1 -all"], false),
            (Publication::Unknown, &["v=spf1 exists:%{i}.example.org -all"], false),
        ] {
            let entry = entry(&record(status, found));
            assert_eq!(entry.lines().any(|is| is == line.trim_end()), is_pasted, "{status:?} {found:?}: {entry}");
            assert!(entry.ends_with(line), "{entry}");
        }
    }

    #[test]
    fn only_records_that_may_have_a_second_are_pasted_unchecked() {
        for (purpose, is_pasted) in
            [("MX", false), ("SPF", false), ("DMARC", false), ("DKIM", true), ("SUBMISSION", true), ("IMAP", true)]
        {
            let entry = entry(&WantedRecord { purpose, ..record(Publication::Unknown, &[]) });
            let (why, line) = entry.split_once('\n').unwrap();
            assert!(why.starts_with("; ") && why.contains("look-up failed"), "{entry}");
            assert_eq!(!line.starts_with(';'), is_pasted, "{entry}");
        }
    }

    #[test]
    fn no_failure_is_claimed_of_a_dns_that_answered() {
        let entry = entry(&record(Publication::Unknown, &["v=spf1 mx -all"]));
        assert_eq!(entry, "example.org. 3600 IN TXT \"v=spf1 mx -all\"\n");
    }

    #[test]
    fn published_hosts_are_compared_without_case_and_final_dot() {
        assert!(is_same("10 MX.example.org", "10 mx.example.org."));
        assert!(!is_same("20 mx.example.org", "10 mx.example.org."));
        assert!(!is_same("V=SPF1 -all", "v=spf1 -all"));
    }

    #[test]
    fn no_comment_continues_on_the_next_line() {
        let file = entry(&WantedRecord { value: None, ..record(Publication::Unknown, &[]) });
        assert!(file.starts_with("; SPF example.org: a ") && file.lines().count() == 1, "{file}");
    }
}
