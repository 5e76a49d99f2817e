//! Checks the DMARC policy, which receivers apply to mail that falsely claims to come from the domain (RFC 9989).

use mailapi_backend::DnsError;

use super::tags::Tags;
use super::{Context, RecordCheck, RecordStatus, texts};

/// After the query for its own record, a longer name is cut to this many labels (section 4.10). Otherwise its owner
/// could cause unlimited queries.
const MAX_LABELS: usize = 7;
const POLICIES: [&str; 3] = ["none", "quarantine", "reject"];

/// An ancestor of the domain, and its only policy.
type Found = (String, String);

/// A policy that applies to a domain.
pub(in crate::domains) struct AppliedPolicy {
    /// The record.
    pub(in crate::domains) record: String,
    /// The tag of the record that applies to the domain: `p`, `sp` or `np`.
    pub(in crate::domains) tag: &'static str,
}

impl AppliedPolicy {
    /// Returns what receivers do about forged mail: `none`, `quarantine` or `reject`. In test mode it is one step less
    /// (section 4.7).
    pub(in crate::domains) fn strength(&self) -> &'static str {
        match (self.wanted(), self.value("t")) {
            ("reject", "y") => "quarantine",
            (_, "y") => "none",
            (policy, _) => policy,
        }
    }

    /// Whether the owner receives reports.
    pub(in crate::domains) fn is_reported(&self) -> bool {
        is_reported(&Tags::of(&self.record))
    }

    /// Whether the policy has less effect than it says: by `t`, or at older receivers by `pct` (RFC 7489 section 6.3).
    pub(in crate::domains) fn is_testing(&self) -> bool {
        self.wanted() != "none" && (self.value("t") == "y" || self.share().is_some())
    }

    /// Returns the percentage of forged mail that older receivers treat as the policy says, if it is not all of it (RFC 7489
    /// section 6.3). Receivers ignore an invalid one.
    pub(in crate::domains) fn share(&self) -> Option<u8> {
        self.value("pct").parse().ok().filter(|share| *share < 100 && self.wanted() != "none")
    }

    /// Whether names below the domain have a weaker policy.
    pub(in crate::domains) fn spares_subdomains(&self) -> bool {
        let is_weaker = |value: &str| matches!(value.to_ascii_lowercase().as_str(), "none" | "quarantine");
        self.tag == "p" && self.strength() == "reject" && is_weaker(self.value("sp"))
    }

    /// What the policy asks for; a record without a valid tag counts as `none` (section 4.7).
    fn wanted(&self) -> &'static str {
        let wanted = self.value(self.tag);
        POLICIES.into_iter().find(|policy| policy.eq_ignore_ascii_case(wanted)).unwrap_or("none")
    }

    fn value(&self, tag: &str) -> &str {
        Tags::of(&self.record).get(tag).unwrap_or_default()
    }
}

pub(super) async fn check(context: &Context<'_>) -> RecordCheck {
    look(context).await.0
}

/// Checks the policy, and returns the one that applies if its record is valid.
pub(super) async fn look(context: &Context<'_>) -> (RecordCheck, Option<AppliedPolicy>) {
    let domain = context.domain.as_str();
    let expected = format!("v=DMARC1; p=quarantine; rua=mailto:postmaster@{domain}");
    let check = RecordCheck::required("DMARC", format!("_dmarc.{domain}"), expected);
    let own = match texts(context.dns, &format!("_dmarc.{domain}")).await {
        Err(error) => return (check.unanswered(&error), None),
        Ok(found) => found,
    };
    match policies(&own)[..] {
        [] if own.is_empty() => {}
        [] => return (check.with(RecordStatus::Mismatch, own, "The record is not a DMARC policy."), None),
        [policy] => {
            let (status, hint) = judged(policy, "p", "The policy states how receivers treat forged mail.");
            let applied = AppliedPolicy { record: policy.clone(), tag: "p" };
            return (check.with(status, own, hint), Some(applied));
        }
        _ => {
            let hint = "Receivers ignore several policies; keep one.";
            return (check.with(RecordStatus::Mismatch, own, hint), None);
        }
    }
    match inherited(context).await {
        Err(error) => (check.unanswered(&error), None),
        Ok(Some((ancestor, record, tag))) => {
            let fine = format!("The policy of {ancestor} also applies to this domain.");
            let (status, hint) = judged(&record, tag, &fine);
            (check.with(status, vec![record.clone()], hint), Some(AppliedPolicy { record, tag }))
        }
        Ok(None) => {
            let hint = "Add the record; many receivers reject or mark mail from a domain without one.";
            (check.with(RecordStatus::Missing, Vec::new(), hint), None)
        }
    }
}

/// The policy that the domain inherits from an ancestor, and the applicable tag of that policy.
async fn inherited(context: &Context<'_>) -> Result<Option<(String, String, &'static str)>, DnsError> {
    let mut found: Vec<Found> = Vec::new();
    for ancestor in ancestors(context.domain.as_str()) {
        let texts = texts(context.dns, &format!("_dmarc.{ancestor}")).await?;
        // Several policies at one name count as none (section 4.10).
        if let [policy] = policies(&texts)[..] {
            found.push((ancestor.to_owned(), policy.clone()));
            // `psd` ends the search: it marks the organizational domain or a public suffix (section 4.10).
            if Tags::of(policy).get("psd").is_some_and(|psd| psd == "n" || psd == "y") {
                break;
            }
        }
    }
    let Some((ancestor, policy)) = organizational(found, context.domain.as_str()) else { return Ok(None) };
    let tags = Tags::of(&policy);
    // Only `np` depends on whether the domain exists.
    let is_missing = tags.get("np").is_some() && is_missing(context).await?;
    let tag = applicable(&tags, is_missing);
    Ok(Some((ancestor, policy, tag)))
}

async fn is_missing(context: &Context<'_>) -> Result<bool, DnsError> {
    match context.dns.mx(context.domain.as_str()).await {
        Err(DnsError::NoSuchName) => Ok(true),
        answer => answer.map(|_| false),
    }
}

/// Selects the policy for a domain without its own (section 4.10.2), from those found from the nearest name upward.
/// It is the policy of the organizational domain, or else of the public suffix above it.
fn organizational(mut found: Vec<Found>, domain: &str) -> Option<Found> {
    let (name, policy) = found.pop()?;
    if Tags::of(&policy).get("psd") != Some("y") {
        return Some((name, policy));
    }
    let is_right_below = |(below, _): &Found| below.split_once('.').is_some_and(|(_, above)| above == name);
    match found.pop().filter(is_right_below) {
        Some(organizational) if organizational.0 != domain => Some(organizational),
        _ => Some((name, policy)),
    }
}

/// The tag that applies to names below the policy's own (section 4.7); `np` applies to names that do not exist.
fn applicable(tags: &Tags<'_>, is_missing: bool) -> &'static str {
    match () {
        () if is_missing && tags.get("np").is_some() => "np",
        () if tags.get("sp").is_some() => "sp",
        () => "p",
    }
}

/// The effect of a policy with this applicable tag. Without a valid tag, receivers accept the mail and only
/// report, if the record has an address for reports. Otherwise they ignore the record (section 4.7).
fn judged(policy: &str, tag: &str, fine: &str) -> (RecordStatus, String) {
    let tags = Tags::of(policy);
    let is_valid =
        |tag: &str| tags.get(tag).is_none_or(|value| POLICIES.contains(&value.to_ascii_lowercase().as_str()));
    if tags.get(tag).is_some() && ["p", "sp", "np"].into_iter().all(is_valid) {
        return (RecordStatus::Ok, fine.to_owned());
    }
    if is_reported(&tags) {
        let hint =
            format!("Without a valid {tag}= the policy counts as p=none: receivers report and accept forged mail.");
        return (RecordStatus::Ok, hint);
    }
    (RecordStatus::Mismatch, "p=, sp= and np= must be none, quarantine or reject.".to_owned())
}

/// Whether reports go to an address.
fn is_reported(tags: &Tags<'_>) -> bool {
    tags.get("rua").is_some_and(|rua| rua.split(',').any(|to| to.trim().starts_with("mailto:")))
}

fn policies(texts: &[String]) -> Vec<&String> {
    texts.iter().filter(|text| Tags::of(text).has_version("DMARC1")).collect()
}

/// The ancestors to query, down to one label.
fn ancestors(domain: &str) -> impl Iterator<Item = &str> {
    let above = |name: &str| name.split_once('.').map_or("", |(_, rest)| rest).len();
    let skipped = domain.split('.').count().saturating_sub(MAX_LABELS).max(1);
    let first = (0..skipped).fold(domain, |name, _| &name[name.len() - above(name)..]);
    let names = std::iter::successors(Some(first), move |name| Some(&name[name.len() - above(name)..]));
    names.take_while(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_asks_no_more_than_eight_names() {
        let walk = |domain| ancestors(domain).collect::<Vec<_>>();
        assert_eq!(walk("a.b.example.org"), ["b.example.org", "example.org", "org"]);
        assert_eq!(walk("localhost"), Vec::<&str>::new());
        assert_eq!(walk("a.b.c.d.e.f.g.h.i.j.mail.example.com").len(), MAX_LABELS);
        assert_eq!(walk("a.b.c.d.e.f.g.h.i.j.mail.example.com")[0], "g.h.i.j.mail.example.com");
        assert_eq!(walk("b.c.d.e.f.g.h.com")[0], "c.d.e.f.g.h.com");
    }

    #[test]
    fn a_policy_without_a_valid_p_counts_only_with_reports() {
        for (policy, status) in [
            ("v=DMARC1", RecordStatus::Mismatch),
            ("v=DMARC1; p=quarantin", RecordStatus::Mismatch),
            ("v=DMARC1; p=reject; sp=quarantin", RecordStatus::Mismatch),
            ("v=DMARC1; rua=https://example.org/", RecordStatus::Mismatch),
            ("v=DMARC1; rua=mailto:a@example.org", RecordStatus::Ok),
            ("v=DMARC1; p=quarantin; rua=mailto:a@example.org", RecordStatus::Ok),
            ("v=DMARC1; rua=mailto:a@example.org; p=Reject", RecordStatus::Ok),
        ] {
            assert_eq!(judged(policy, "p", "").0, status, "{policy}");
        }
        assert!(judged("v=DMARC1; rua=mailto:a@example.org", "p", "").1.contains("p=none"));
    }

    #[test]
    fn the_organizational_domain_decides_for_those_below_it() {
        let found = |policies: &[(&str, &str)]| -> Vec<Found> {
            policies.iter().map(|(name, policy)| ((*name).to_owned(), format!("v=DMARC1; {policy}"))).collect()
        };
        let name =
            |policies: &[(&str, &str)]| organizational(found(policies), "a.b.example.co.uk").map(|(name, _)| name);
        assert_eq!(name(&[]), None);
        assert_eq!(name(&[("b.example.co.uk", "p=none"), ("example.co.uk", "p=reject")]).unwrap(), "example.co.uk");
        let suffix = ("co.uk", "p=reject; psd=y");
        assert_eq!(
            name(&[("b.example.co.uk", "p=none"), ("example.co.uk", "p=none"), suffix]).unwrap(),
            "example.co.uk"
        );
        assert_eq!(name(&[("b.example.co.uk", "p=none"), suffix]).unwrap(), "co.uk");
    }

    #[test]
    fn names_below_have_policies_of_their_own() {
        let tag = |policy: &str, is_missing| applicable(&Tags::of(policy), is_missing);
        for (policy, there, missing) in [
            ("v=DMARC1; p=reject", "p", "p"),
            ("v=DMARC1; p=reject; sp=none", "sp", "sp"),
            ("v=DMARC1; p=none; np=reject", "p", "np"),
            ("v=DMARC1; p=none; sp=none; np=reject", "sp", "np"),
        ] {
            assert_eq!((tag(policy, false), tag(policy, true)), (there, missing), "{policy}");
        }
    }
}
