//! DMARC records as mail-auth may read them.
//!
//! A syntax error in a record must be ignored in favour of the default (RFC 9989 section 4.7). mail-auth 0.13.3 rejects
//! the whole record instead, so a mistyped tag would switch the policy off.

/// The version, which must be the first tag and have exactly this value.
const VERSION: &str = "DMARC1";

/// A TXT record at the name of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PolicyRecord {
    /// Another record.
    Other,
    /// A policy in canonical form, with the tags that decide about a message. Without `p`, it switches DMARC off: section
    /// 4.10.1 of RFC 9989 wants no processing then. Section 4.7 counts a missing `p` as `none`, which delivers as well.
    Policy(String),
}

impl PolicyRecord {
    /// Reads a record.
    pub(super) fn of(text: &str) -> Self {
        let mut tags = text.split(';').map(tag);
        // No space may come before the version.
        if text.starts_with([' ', '\t']) || tags.next() != Some(Some(("v".to_owned(), VERSION))) {
            return Self::Other;
        }
        let tags: Vec<_> = tags.flatten().collect();
        let value = |name: &str| tags.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
        let policy = |name| value(name).map(|value| one_of(value, &["none", "quarantine", "reject"]));
        let is_valid = matches!(policy("p"), Some(Some(_))) && policy("sp") != Some(None) && policy("np") != Some(None);
        let mut record = format!("v={VERSION}");
        let mut add = |name: &str, value: &str| record.push_str(&format!("; {name}={value}"));
        if is_valid {
            for name in ["p", "sp", "np"] {
                policy(name).flatten().into_iter().for_each(|value| add(name, value));
            }
        } else if value("rua").is_some_and(|list| list.split(',').any(is_report_uri)) {
            add("p", "none");
        }
        for (name, values) in [("adkim", ["r", "s"]), ("aspf", ["r", "s"]), ("psd", ["y", "n"]), ("t", ["y", "n"])] {
            value(name).and_then(|value| one_of(value, &values)).into_iter().for_each(|value| add(name, value));
        }
        Self::Policy(record)
    }
}

/// Reads a tag; its name is in lower case.
fn tag(text: &str) -> Option<(String, &str)> {
    let (name, value) = text.split_once('=')?;
    Some((name.trim_matches([' ', '\t']).to_ascii_lowercase(), value.trim_matches([' ', '\t'])))
}

fn one_of<'a>(value: &str, known: &[&'a str]) -> Option<&'a str> {
    known.iter().find(|one| one.eq_ignore_ascii_case(value)).copied()
}

/// Returns whether reports can be sent to this address, which may end with a limit of their size.
fn is_report_uri(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let (address, limit) = text.split_once('!').map_or((text, None), |(address, limit)| (address, Some(limit)));
    let is_limit = |limit: &str| {
        let digits = limit.strip_suffix(['k', 'm', 'g', 't', 'K', 'M', 'G', 'T']).unwrap_or(limit);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let mailbox =
        address.split_at_checked("mailto:".len()).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("mailto:"));
    let has_mailbox = mailbox.is_some_and(|(_, mailbox)| {
        mailbox.split_once('@').is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty())
    });
    has_mailbox && limit.is_none_or(is_limit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy(text: &str) -> String {
        match PolicyRecord::of(text) {
            PolicyRecord::Policy(record) => record.trim_start_matches("v=DMARC1; ").to_owned(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_record_of_another_kind_is_none() {
        for text in [
            "",
            "v=DMARC1x",
            "v=dmarc1; p=reject",
            " v=DMARC1; p=reject",
            "p=reject; v=DMARC1",
            "v=DMARC1 p=none",
            "v",
            "=DMARC1",
        ] {
            assert_eq!(PolicyRecord::of(text), PolicyRecord::Other, "{text}");
        }
    }

    #[test]
    fn a_wrong_tag_does_not_turn_the_policy_off() {
        for text in [
            "v=DMARC1;p=reject",
            "V = DMARC1 ; P = Reject ;",
            "v=DMARC1; p=reject; adkim=x; aspf=strict",
            "v=DMARC1; p=reject; fo=x; ruf=x; fo=0:1:d:s:",
            "v=DMARC1; p=reject; rua=mailto:a@x.example!10q",
            "v=DMARC1; p=reject; pct=half; moo; =; ;;",
            "v=DMARC1; p=reject; p=none",
            "v=DMARC1; moo=1; p=reject",
        ] {
            assert_eq!(policy(text), "p=reject", "{text}");
        }
        assert_eq!(
            policy("v=DMARC1; p=none; sp=QUARANTINE; np=reject; aspf=S"),
            "p=none; sp=quarantine; np=reject; aspf=s"
        );
        assert_eq!(policy("v=DMARC1; p=reject; psd=y; t=Y; adkim=s"), "p=reject; adkim=s; psd=y; t=y");
    }

    #[test]
    fn a_policy_that_cannot_be_read_asks_for_reports_at_most() {
        // Without `p`, DMARC does not apply, and no parent's policy does.
        let has_none = |text: &str| match PolicyRecord::of(text) {
            PolicyRecord::Policy(record) => !record.contains("p="),
            PolicyRecord::Other => false,
        };
        for tags in ["p=discard", "p=", "sp=reject", "p=reject; sp=discard", "p=reject; np=x", "p=reject\\; aspf=s", ""]
        {
            assert!(has_none(&format!("v=DMARC1; {tags}")), "{tags}");
            for uri in ["mailto:", "mailto:x", "https://x.example", "mailto:a@x.example!", "mailto:@x.example"] {
                assert!(has_none(&format!("v=DMARC1; {tags}; rua={uri}")), "{tags} {uri}");
            }
            for uri in ["mailto:a@x.example", "x, MAILTO:a@x.example!10m", "mailto:a@x.example!5 "] {
                let policy = policy(&format!("v=DMARC1; {tags}; rua={uri}"));
                assert_eq!(policy.trim_end_matches("; aspf=s"), "p=none", "{tags} {uri}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_record_is_read(text in "(v=DMARC1)?([;= \t,!@]|p|sp|none|reject|rua|mailto:|\\PC){0,24}") {
            if let PolicyRecord::Policy(record) = PolicyRecord::of(&text) {
                // The canonical form means the same.
                prop_assert_eq!(PolicyRecord::of(&record), PolicyRecord::Policy(record));
            }
        }
    }
}
