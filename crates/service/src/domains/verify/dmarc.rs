//! What receivers are asked to do with mail that only claims to come from the domain (RFC 7489 section 6.3).

use super::tags::Tags;
use super::{Context, RecordCheck, RecordStatus, texts};

pub(super) async fn check(context: &Context<'_>) -> RecordCheck {
    let domain = context.domain.as_str();
    let expected = format!("v=DMARC1; p=quarantine; rua=mailto:postmaster@{domain}");
    let check = RecordCheck::required("DMARC", format!("_dmarc.{domain}"), expected);
    for ancestor in ancestors(domain) {
        let found = match texts(context.dns, &format!("_dmarc.{ancestor}")).await {
            Err(error) => return check.unanswered(&error),
            Ok(found) => found,
        };
        let policies: Vec<&String> = found.iter().filter(|text| Tags::of(text).has_version("DMARC1")).collect();
        match policies[..] {
            [] if found.is_empty() || ancestor != domain => {}
            [] => return check.with(RecordStatus::Mismatch, found, "The record is no DMARC policy."),
            [policy] if has_policy(policy) => {
                let hint = if ancestor == domain {
                    "Receivers know what to do with forged mail.".to_owned()
                } else {
                    format!("The policy of {ancestor} holds for this domain, too.")
                };
                return check.with(RecordStatus::Ok, found, hint);
            }
            [_] => return check.with(RecordStatus::Mismatch, found, "p= must be none, quarantine or reject."),
            _ => return check.with(RecordStatus::Mismatch, found, "Several policies count as none: keep one."),
        }
    }
    let hint = "Add the record; many receivers refuse or mark mail of a domain without one.";
    check.with(RecordStatus::Missing, Vec::new(), hint)
}

fn has_policy(text: &str) -> bool {
    Tags::of(text).get("p").is_some_and(|policy| ["none", "quarantine", "reject"].contains(&policy))
}

/// The domain and those above it, down to two labels.
fn ancestors(domain: &str) -> impl Iterator<Item = &str> {
    fn above<'a>(name: &&'a str) -> Option<&'a str> {
        name.split_once('.').map(|(_, rest)| rest).filter(|rest| rest.contains('.'))
    }
    std::iter::successors(Some(domain), above)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_walk_ends_below_the_top() {
        assert_eq!(
            super::ancestors("a.b.example.org").collect::<Vec<_>>(),
            ["a.b.example.org", "b.example.org", "example.org"]
        );
        assert_eq!(super::ancestors("localhost").collect::<Vec<_>>(), ["localhost"]);
    }
}
