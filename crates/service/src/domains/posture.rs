//! `GET /domains/{domain}/security`: how well the published records protect a domain from forgers and listeners.

use mailapi_model::{DomainName, Timestamp};

use super::DomainError;
use super::verify::{
    AppliedPolicy, Context, ProtectionCheck, RecordCheck, RecordStatus, StrangerResult, TIME, TimedDns,
    check_protection,
};
use crate::{Caller, Service};

/// How well the records of a domain protect it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainPosture {
    /// The domain.
    pub domain: DomainName,
    /// The time of the look-ups.
    pub checked_at: Timestamp,
    /// The protection as a whole: as good as the worst of SPF, DKIM and DMARC. Never [`ProtectionLevel::Missing`].
    pub level: ProtectionLevel,
    /// The step that helps most now; `None` if there is none.
    pub next_step: Option<String>,
    /// The protections, in the order in which they are best published.
    pub protections: Vec<DomainProtection>,
}

/// What one kind of record does for a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainProtection {
    /// The kind: `SPF`, `DKIM`, `DMARC`, `MTA-STS` or `TLS-RPT`.
    pub kind: &'static str,
    /// How well it protects.
    pub level: ProtectionLevel,
    /// The published values.
    pub found: Vec<String>,
    /// What the records do now.
    pub text: String,
    /// What to do next; `None` if there is nothing to do.
    pub next_step: Option<String>,
}

/// How well records protect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtectionLevel {
    /// The records do all that such records can do.
    Strong,
    /// There is one more step.
    Fair,
    /// The records are wrong, or have next to no effect.
    Weak,
    /// There is no record.
    Missing,
    /// A look-up failed, or a record has a part whose effect is unknown.
    Unknown,
}

impl ProtectionLevel {
    /// Every level.
    pub const ALL: [Self; 5] = [Self::Strong, Self::Fair, Self::Weak, Self::Missing, Self::Unknown];

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strong => "strong",
            Self::Fair => "fair",
            Self::Weak => "weak",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        }
    }
}

impl Service {
    /// Looks the records of a domain up, without a cache, and says what they protect from. Changes nothing.
    ///
    /// # Errors
    /// See [`DomainError`]. Name servers that do not answer are a level, not an error.
    pub async fn domain_posture(&self, caller: &Caller, name: &DomainName) -> Result<DomainPosture, DomainError> {
        caller.grants.may_manage_domain(name)?;
        let domain = self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)?.name;
        let keys = self.keys_in_use(name).await?;
        let dns = TimedDns::new(self.0.fresh_dns.as_ref(), TIME);
        let context = Context::new(&dns, &domain, &self.0.settings.mail_host).await;
        let protections = protections(&check_protection(&context, &keys).await);
        let (level, next_step) = (level_of(&protections), next_step(&protections));
        Ok(DomainPosture { domain, checked_at: self.0.clock.now(), level, next_step, protections })
    }
}

fn protections(check: &ProtectionCheck) -> Vec<DomainProtection> {
    let of = |kind: &'static str| check.records.iter().filter(move |check| check.kind == kind);
    let records_about_tls = of("MTA-STS")
        .chain(of("TLS-RPT"))
        .map(|check| by_status(check, || (ProtectionLevel::Strong, check.hint.clone(), None)));
    let spf = of("SPF").map(|record| by_status(record, || spf(check.strangers)));
    let dmarc = of("DMARC").map(|record| by_status(record, || dmarc(check.policy.as_ref())));
    spf.chain(dkim(&of("DKIM").collect::<Vec<_>>())).chain(dmarc).chain(records_about_tls).collect()
}

/// What a right record does: its level, a text, and the next step.
type Effect = (ProtectionLevel, String, Option<String>);

/// Describes a record that is not right by what is wrong; `effect` describes one that is.
fn by_status(check: &RecordCheck, effect: impl FnOnce() -> Effect) -> DomainProtection {
    let (level, text, next_step) = match check.status {
        RecordStatus::Ok | RecordStatus::Undecided => effect(),
        RecordStatus::Error => (ProtectionLevel::Unknown, check.hint.clone(), None),
        RecordStatus::Missing if check.expected.is_empty() => {
            (ProtectionLevel::Missing, "There is no record.".to_owned(), Some(check.hint.clone()))
        }
        RecordStatus::Missing => {
            let step = format!("Publish {} at {}.", check.expected, check.name);
            (ProtectionLevel::Missing, check.hint.clone(), Some(step))
        }
        RecordStatus::Mismatch => {
            let text = "The published record is wrong.".to_owned();
            (ProtectionLevel::Weak, text, Some(check.hint.clone()))
        }
    };
    DomainProtection { kind: check.kind, level, found: check.found.clone(), text, next_step }
}

fn spf(strangers: Option<StrangerResult>) -> Effect {
    let (level, text, next_step) = match strangers {
        Some(StrangerResult::Distrusted) => {
            (ProtectionLevel::Strong, "Receivers distrust mail from other servers.", None)
        }
        Some(StrangerResult::Neutral) => {
            let step = "End the policy with ~all.";
            (ProtectionLevel::Weak, "The policy says nothing about other servers.", Some(step))
        }
        Some(StrangerResult::Allowed) => {
            let step = "Name only servers that send for this domain, and end the policy with ~all.";
            let text = "The policy allows all servers, or a large part of the Internet, to send as this domain.";
            (ProtectionLevel::Weak, text, Some(step))
        }
        Some(StrangerResult::Unknown) => {
            (ProtectionLevel::Unknown, "The policy has macros, so only real mail shows which servers it allows.", None)
        }
        None => (ProtectionLevel::Unknown, "The policy could not be read.", None),
    };
    (level, text.to_owned(), next_step.map(ToOwned::to_owned))
}

/// Describes the records of all keys as one protection: those that sign decide.
fn dkim(checks: &[&RecordCheck]) -> Option<DomainProtection> {
    let signing = || checks.iter().filter(|check| check.required);
    let is_right = |check: &&&RecordCheck| check.status == RecordStatus::Ok;
    let wrong = signing().find(|check| !is_right(check));
    let shown = wrong.or_else(|| signing().next())?;
    let signed = || (ProtectionLevel::Strong, "Receivers can verify the signatures of this server.".to_owned(), None);
    let mut protection = by_status(shown, signed);
    // The signature of one algorithm is enough.
    if wrong.is_some() && signing().any(|check| is_right(&check)) {
        protection.level = ProtectionLevel::Fair;
        protection.text = "Receivers can verify one of the signatures of this server.".to_owned();
    }
    protection.found = checks.iter().flat_map(|check| check.found.clone()).collect();
    Some(protection)
}

fn dmarc(policy: Option<&AppliedPolicy>) -> Effect {
    let Some(policy) = policy else {
        return (ProtectionLevel::Unknown, "The policy could not be read.".to_owned(), None);
    };
    let reports = "Add rua=mailto: with an address of yours: reports show who sends mail as this domain.";
    let step = |text: &str| Some(text.to_owned());
    let next_step = match policy.strength() {
        _ if !policy.is_reported() => step(reports),
        _ if policy.is_testing() => step("Remove t=y or pct= as soon as the reports show no failure of your own mail."),
        "none" => step("When the reports show no failure of your own mail, publish p=quarantine."),
        "quarantine" => step("When the reports show no failure of your own mail, publish p=reject."),
        _ if policy.spares_subdomains() => {
            step("Remove sp=, or publish sp=reject: forgers use names below this domain.")
        }
        _ => None,
    };
    let (level, text) = match policy.strength() {
        "reject" => (ProtectionLevel::Strong, "Receivers reject forged mail."),
        "quarantine" => (ProtectionLevel::Fair, "Receivers treat forged mail as suspicious."),
        _ => (ProtectionLevel::Weak, "Receivers accept forged mail."),
    };
    let text = match policy.share() {
        Some(share) => format!("{text} Older receivers do so with {share} % of it."),
        None => text.to_owned(),
    };
    let is_whole = !policy.is_testing() && !policy.spares_subdomains();
    let level = match level {
        ProtectionLevel::Strong if !is_whole => ProtectionLevel::Fair,
        ProtectionLevel::Fair if policy.share().is_some() => ProtectionLevel::Weak,
        level => level,
    };
    (level, text, next_step)
}

/// Returns the level of the domain.
fn level_of(protections: &[DomainProtection]) -> ProtectionLevel {
    let required = || protections.iter().filter(|protection| matches!(protection.kind, "SPF" | "DKIM" | "DMARC"));
    let any = |level: ProtectionLevel| required().any(|protection| protection.level == level);
    match () {
        () if any(ProtectionLevel::Missing) || any(ProtectionLevel::Weak) => ProtectionLevel::Weak,
        () if any(ProtectionLevel::Unknown) => ProtectionLevel::Unknown,
        () if protections.iter().all(|protection| protection.level == ProtectionLevel::Strong) => {
            ProtectionLevel::Strong
        }
        () => ProtectionLevel::Fair,
    }
}

/// Returns the step that helps most: where nothing protects yet, then where little does.
fn next_step(protections: &[DomainProtection]) -> Option<String> {
    let urgency = |protection: &&DomainProtection| match protection.level {
        ProtectionLevel::Missing | ProtectionLevel::Weak => 0,
        ProtectionLevel::Fair => 1,
        ProtectionLevel::Strong | ProtectionLevel::Unknown => 2,
    };
    let steps = protections.iter().filter(|protection| protection.next_step.is_some());
    // The first of equal ones: they are in the order in which they are best published.
    steps.min_by_key(urgency).and_then(|protection| protection.next_step.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &'static str, status: RecordStatus, found: &[&str]) -> RecordCheck {
        RecordCheck {
            kind,
            name: "name.example".to_owned(),
            expected: "value".to_owned(),
            found: found.iter().map(ToString::to_string).collect(),
            status,
            required: true,
            hint: "A hint.".to_owned(),
        }
    }

    #[test]
    fn what_strangers_may_do_decides_about_spf() {
        use ProtectionLevel::{Strong, Unknown, Weak};
        for (strangers, level, has_step) in [
            (Some(StrangerResult::Distrusted), Strong, false),
            (Some(StrangerResult::Neutral), Weak, true),
            (Some(StrangerResult::Allowed), Weak, true),
            (Some(StrangerResult::Unknown), Unknown, false),
            (None, Unknown, false),
        ] {
            let (found, _, step) = spf(strangers);
            assert_eq!((found, step.is_some()), (level, has_step), "{strangers:?}");
        }
    }

    #[test]
    fn a_dmarc_policy_is_as_strong_as_what_receivers_do() {
        use ProtectionLevel::{Fair, Strong, Weak};
        let of = |record: &str| dmarc(Some(&AppliedPolicy { record: record.to_owned(), tag: "p" }));
        for (record, level, step) in [
            ("v=DMARC1; p=none", Weak, "rua="),
            ("v=DMARC1; p=none; rua=mailto:a@example.org", Weak, "p=quarantine"),
            ("v=DMARC1; rua=mailto:a@example.org", Weak, "p=quarantine"),
            ("v=DMARC1; p=Quarantine; rua=mailto:a@example.org", Fair, "p=reject"),
            ("v=DMARC1; p=reject; rua=mailto:a@example.org", Strong, ""),
            ("v=DMARC1; p=reject", Strong, "rua="),
            ("v=DMARC1; p=reject; sp=none; rua=mailto:a@example.org", Fair, "sp=reject"),
            ("v=DMARC1; p=reject; t=y; rua=mailto:a@example.org", Fair, "t=y"),
            ("v=DMARC1; p=reject; pct=10; rua=mailto:a@example.org", Fair, "pct="),
            ("v=DMARC1; p=reject; pct=100; rua=mailto:a@example.org", Strong, ""),
            ("v=DMARC1; p=quarantine; t=y; rua=mailto:a@example.org", Weak, "t=y"),
            ("v=DMARC1; p=quarantine; pct=10; rua=mailto:a@example.org", Weak, "pct="),
            ("v=DMARC1; p=reject; pct=x; rua=mailto:a@example.org", Strong, ""),
            ("v=DMARC1; p=none; pct=10; rua=mailto:a@example.org", Weak, "p=quarantine"),
        ] {
            let (found, _, next) = of(record);
            assert_eq!(found, level, "{record}");
            let next = next.unwrap_or_default();
            assert!(next.contains(step) && next.is_empty() == step.is_empty(), "{record}: {next}");
        }
    }

    #[test]
    fn one_published_key_is_enough_to_verify_mail() {
        use ProtectionLevel::{Fair, Missing, Strong, Unknown};
        let keys = |statuses: &[RecordStatus]| {
            let checks: Vec<_> = statuses.iter().map(|status| check("DKIM", *status, &[])).collect();
            dkim(&checks.iter().collect::<Vec<_>>()).unwrap().level
        };
        assert_eq!(keys(&[RecordStatus::Ok]), Strong);
        assert_eq!(keys(&[RecordStatus::Missing]), Missing);
        assert_eq!(keys(&[RecordStatus::Ok, RecordStatus::Missing]), Fair);
        assert_eq!(keys(&[RecordStatus::Error]), Unknown);
    }

    #[test]
    fn the_next_step_is_where_least_protects() {
        use ProtectionLevel::{Fair, Missing, Strong, Unknown, Weak};
        let posture = |levels: [ProtectionLevel; 5]| {
            let kinds = ["SPF", "DKIM", "DMARC", "MTA-STS", "TLS-RPT"];
            let protections = kinds.into_iter().zip(levels).map(|(kind, level)| DomainProtection {
                kind,
                level,
                found: vec![],
                text: String::new(),
                next_step: (level != Strong).then(|| kind.to_owned()),
            });
            let protections: Vec<_> = protections.collect();
            (level_of(&protections), next_step(&protections))
        };
        let step = |kind: &str| Some(kind.to_owned());
        assert_eq!(posture([Strong; 5]), (Strong, None));
        assert_eq!(posture([Strong, Strong, Fair, Strong, Missing]), (Fair, step("TLS-RPT")));
        assert_eq!(posture([Strong, Strong, Fair, Strong, Strong]), (Fair, step("DMARC")));
        assert_eq!(posture([Fair, Missing, Weak, Missing, Missing]), (Weak, step("DKIM")));
        assert_eq!(posture([Strong, Unknown, Strong, Missing, Strong]).0, Unknown);
        assert_eq!(posture([Unknown, Strong, Missing, Strong, Strong]), (Weak, step("DMARC")));
    }
}
