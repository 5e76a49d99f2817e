//! Checks the SPF policy (RFC 7208). The types of mail-auth, which parses it, stay in this file.

use std::net::IpAddr;

use mail_auth::common::parse::TxtRecordParser;
use mail_auth::spf::{Macro, Mechanism, Qualifier, Spf};
use mailapi_backend::{Dns, DnsError};

use super::{Context, RecordCheck, RecordStatus, spf_grammar, texts};

/// Maximum number of look-ups for one policy; more make the policy invalid (RFC 7208 section 4.6.4).
const MAX_LOOKUPS: u32 = 10;

/// Maximum number of look-ups to count for the report. A tree of includes can be arbitrarily large, so the walk
/// ends here; the policy is invalid by then.
const MAX_COUNTED: u32 = 10 * MAX_LOOKUPS;

/// Maximum number of mail servers per `mx` mechanism (RFC 7208 section 4.6.4).
const MAX_EXCHANGES: usize = 10;

/// Maximum depth of includes. Each level costs a look-up, so a deeper chain exceeds their limit.
const MAX_DEPTH: u32 = MAX_LOOKUPS + 1;

/// Maximum number of characters of a wrong term to show; a policy can be one term of 64 KiB.
const MAX_SHOWN: usize = 60;

pub(super) async fn check(context: &Context<'_>) -> RecordCheck {
    let domain = context.domain.as_str();
    let host = if context.name_to_set().is_some() { String::new() } else { format!("a:{} ", context.host) };
    let check = RecordCheck::required("SPF", domain.to_owned(), format!("v=spf1 {host}mx -all"));
    let found = match texts(context.dns, domain).await {
        Err(error) => return check.unanswered(&error),
        Ok(found) => found.into_iter().filter(|text| is_policy(text)).collect::<Vec<_>>(),
    };
    let policy = match &found[..] {
        [] => {
            return check.with(RecordStatus::Missing, found, "Add the record; without it receivers distrust the mail.");
        }
        [policy] => policy.clone(),
        _ => {
            return check.with(
                RecordStatus::Mismatch,
                found,
                "Receivers treat several policies as an error; keep one.",
            );
        }
    };
    let mut walk = Walk { dns: context.dns, addresses: context.known_addresses(), lookups: 0 };
    match walk.policy(domain, &policy, 0).await {
        Err(Fault::Dns(error)) => check.finding(found).unanswered(&error),
        Err(Fault::Broken(why)) => check.with(RecordStatus::Mismatch, found, why),
        Ok(_) if walk.lookups > MAX_LOOKUPS => {
            let hint =
                format!("The policy needs {} look-ups; with more than {MAX_LOOKUPS} it is invalid.", walk.lookups);
            check.with(RecordStatus::Mismatch, found, hint)
        }
        Ok(result) => judge(check, found, result, &walk, context),
    }
}

fn judge(
    check: RecordCheck,
    found: Vec<String>,
    result: SpfResult,
    walk: &Walk<'_>,
    context: &Context<'_>,
) -> RecordCheck {
    let lookups = format!("The policy needs {} of {MAX_LOOKUPS} look-ups.", walk.lookups);
    match result {
        _ if context.known_addresses().is_empty() => {
            if let Err(error) = &context.addresses {
                return check.finding(found).unanswered(error);
            }
            let hint =
                format!("{lookups} Whether it allows this server is unknown: {} has no address in DNS.", context.host);
            check.with(RecordStatus::Undecided, found, hint)
        }
        SpfResult::Allowed => check.with(RecordStatus::Ok, found, lookups),
        SpfResult::Unknown => {
            let hint = format!("{lookups} It has macros, so only real mail shows whether it allows this server.");
            check.with(RecordStatus::Undecided, found, hint)
        }
        SpfResult::NotAllowed => {
            let hint = format!("{lookups} It does not allow mail from {}: add a:{}.", context.host, context.host);
            check.with(RecordStatus::Mismatch, found, hint)
        }
    }
}

/// Returns the policy that also allows this server.
///
/// # Errors
/// The reason why the policy cannot be extended.
pub(in crate::domains) async fn extended(context: &Context<'_>, policy: &str) -> Result<String, String> {
    let terms = policy.split_once(' ').map(|(_, terms)| terms).unwrap_or_default();
    let extended = format!("v=spf1 a:{} {terms}", context.host).trim_end().to_owned();
    let mut walk = Walk { dns: context.dns, addresses: context.known_addresses(), lookups: 0 };
    match walk.policy(context.domain.as_str(), &extended, 0).await {
        Err(Fault::Dns(error)) => Err(format!("The DNS look-up failed: {error}.")),
        Err(Fault::Broken(why)) => Err(why),
        Ok(_) if walk.lookups > MAX_LOOKUPS => Err(format!(
            "With this server the policy needs {} look-ups; with more than {MAX_LOOKUPS} it is invalid. Remove an include.",
            walk.lookups
        )),
        Ok(_) => Ok(extended),
    }
}

pub(in crate::domains) fn is_policy(text: &str) -> bool {
    let version = text.split(' ').next().unwrap_or_default();
    version.eq_ignore_ascii_case("v=spf1")
}

/// The result of a policy for the server's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpfResult {
    Allowed,
    NotAllowed,
    /// The result depends on data of a real message.
    Unknown,
}

enum Fault {
    Dns(DnsError),
    Broken(String),
}

/// The evaluation of a policy and its includes.
struct Walk<'a> {
    dns: &'a dyn Dns,
    addresses: &'a [IpAddr],
    lookups: u32,
}

impl Walk<'_> {
    /// Evaluates a policy. All mechanisms count, even after the deciding one: mail that matches none costs a
    /// receiver all their look-ups.
    async fn policy(&mut self, domain: &str, text: &str, depth: u32) -> Result<SpfResult, Fault> {
        let broken = |what: &str| Fault::Broken(format!("The policy of {domain} has a syntax error{what}."));
        if let Some(term) = spf_grammar::wrong_term(text) {
            let shown: String = term.chars().take(MAX_SHOWN).collect();
            return Err(broken(&format!(" in {shown}")));
        }
        let parsed = spf_grammar::decisive(text).and_then(|text| Spf::parse(text.as_bytes()).ok());
        let policy = parsed.ok_or_else(|| broken(""))?;
        let mut decided = None;
        for directive in &policy.directives {
            let matched = self.matches(domain, &directive.mechanism, depth).await?;
            decided = decided.or(match (matched, &directive.qualifier) {
                (SpfResult::Allowed, Qualifier::Pass) => Some(SpfResult::Allowed),
                (SpfResult::Allowed, _) => Some(SpfResult::NotAllowed),
                (SpfResult::Unknown, _) => Some(SpfResult::Unknown),
                (SpfResult::NotAllowed, _) => None,
            });
        }
        match &policy.redirect {
            Some(target) if decided.is_none() => self.other_policy(target, domain, depth).await,
            _ => Ok(decided.unwrap_or(SpfResult::NotAllowed)),
        }
    }

    /// Whether a mechanism matches the server's addresses; [`SpfResult::Allowed`] means that it does.
    async fn matches(&mut self, domain: &str, mechanism: &Mechanism, depth: u32) -> Result<SpfResult, Fault> {
        Ok(match mechanism {
            Mechanism::All => SpfResult::Allowed,
            Mechanism::Ip4 { addr, mask } => self.any_own_address(|ours| within(ours, (*addr).into(), *mask, 0)),
            Mechanism::Ip6 { addr, mask } => self.any_own_address(|ours| within(ours, (*addr).into(), 0, *mask)),
            Mechanism::Include { macro_string } => self.other_policy(macro_string, domain, depth).await?,
            Mechanism::A { macro_string, ip4_mask, ip6_mask } => {
                self.count_lookup()?;
                let Some(host) = self.worth_asking(macro_string, domain) else { return Ok(SpfResult::Unknown) };
                let theirs = self.addresses_of(&host).await?;
                self.any_own_address(|ours| theirs.iter().any(|their| within(ours, *their, *ip4_mask, *ip6_mask)))
            }
            Mechanism::Mx { macro_string, ip4_mask, ip6_mask } => {
                self.count_lookup()?;
                let Some(name) = self.worth_asking(macro_string, domain) else { return Ok(SpfResult::Unknown) };
                let theirs = self.addresses_of_exchanges(&name).await?;
                self.any_own_address(|ours| theirs.iter().any(|their| within(ours, *their, *ip4_mask, *ip6_mask)))
            }
            Mechanism::Ptr { .. } | Mechanism::Exists { .. } => {
                self.count_lookup()?;
                SpfResult::Unknown
            }
        })
    }

    /// The name to look up; `None` if it depends on the message, or if the policy has too many look-ups already.
    fn worth_asking(&self, target: &Macro, domain: &str) -> Option<String> {
        (self.lookups <= MAX_LOOKUPS).then(|| literal(target, domain)).flatten()
    }

    fn count_lookup(&mut self) -> Result<(), Fault> {
        self.lookups += 1;
        if self.lookups > MAX_COUNTED {
            let why = format!(
                "The policy needs more than {MAX_COUNTED} look-ups; with more than {MAX_LOOKUPS} it is invalid."
            );
            return Err(Fault::Broken(why));
        }
        Ok(())
    }

    /// Evaluates the policy of an include or a redirect.
    async fn other_policy(&mut self, target: &Macro, domain: &str, depth: u32) -> Result<SpfResult, Fault> {
        self.count_lookup()?;
        let Some(name) = literal(target, domain) else { return Ok(SpfResult::Unknown) };
        if depth >= MAX_DEPTH {
            return Err(Fault::Broken(format!("The includes do not end within {MAX_LOOKUPS} look-ups.")));
        }
        let found = texts(self.dns, &name).await.map_err(Fault::Dns)?;
        let policies: Vec<&String> = found.iter().filter(|text| is_policy(text)).collect();
        match policies[..] {
            [policy] => Box::pin(self.policy(&name, policy, depth + 1)).await,
            [] => Err(Fault::Broken(format!("{name} is included and has no policy."))),
            _ => Err(Fault::Broken(format!("{name} is included and has several policies."))),
        }
    }

    async fn addresses_of(&self, host: &str) -> Result<Vec<IpAddr>, Fault> {
        match self.dns.addresses(host).await {
            Err(DnsError::NoSuchName) => Ok(Vec::new()),
            addresses => addresses.map_err(Fault::Dns),
        }
    }

    async fn addresses_of_exchanges(&self, name: &str) -> Result<Vec<IpAddr>, Fault> {
        let exchanges = match self.dns.mx(name).await {
            Err(DnsError::NoSuchName) => Vec::new(),
            exchanges => exchanges.map_err(Fault::Dns)?,
        };
        if exchanges.len() > MAX_EXCHANGES {
            let why = format!("{name} has more than {MAX_EXCHANGES} mail servers, the maximum for an mx mechanism.");
            return Err(Fault::Broken(why));
        }
        let mut addresses = Vec::new();
        for exchange in exchanges {
            addresses.extend(self.addresses_of(&exchange.exchange).await?);
        }
        Ok(addresses)
    }

    fn any_own_address(&self, matches: impl Fn(IpAddr) -> bool) -> SpfResult {
        let any = self.addresses.iter().any(|ours| matches(*ours));
        if any { SpfResult::Allowed } else { SpfResult::NotAllowed }
    }
}

/// Whether the addresses have the same family and are equal under its mask.
fn within(ours: IpAddr, theirs: IpAddr, mask4: u32, mask6: u128) -> bool {
    match (ours, theirs) {
        (IpAddr::V4(ours), IpAddr::V4(theirs)) => u32::from(ours) & mask4 == u32::from(theirs) & mask4,
        (IpAddr::V6(ours), IpAddr::V6(theirs)) => u128::from(ours) & mask6 == u128::from(theirs) & mask6,
        _ => false,
    }
}

/// The name that a mechanism refers to: its own, or the policy's domain by default. `None` if it depends on the
/// message.
fn literal(name: &Macro, domain: &str) -> Option<String> {
    match name {
        Macro::None => Some(domain.to_owned()),
        Macro::Literal(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Macro::Variable { .. } | Macro::List(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use mailapi_testkit::FakeDns;
    use proptest::prelude::*;

    use super::*;

    /// Valid terms, nearly valid terms, and arbitrary text.
    fn term() -> impl Strategy<Value = String> {
        let pattern = |text: String| proptest::string::string_regex(&text).unwrap();
        let target = "(example\\.org|%\\{[a-z]?[0-9]{0,3}r?[-.+]{0,2}\\}|[a-z0-9.%_-]{0,12}|\\PC{0,4})";
        let network = "(/[0-9]{0,4})?(//[0-9]{0,4})?";
        prop_oneof![
            pattern(format!("[+~?-]?(all|a|mx|ptr|include|exists)(:{target})?{network}")),
            pattern(format!("[+~?-]?ip4:[0-9.]{{0,16}}{network}")),
            pattern(format!("[+~?-]?ip6:[0-9a-f:]{{0,30}}(192\\.0\\.2\\.1)?{network}")),
            "[+~?-]?ip4:192\\.0\\.2\\.1/(3[0-9]|[0-9]{1,2}|[0-9]{3,12})",
            pattern(format!("(redirect|exp|[a-z]{{0,5}})={target}")),
            "\\PC{0,12}",
        ]
    }

    proptest! {
        #[test]
        fn any_policy_is_read_or_refused(terms in prop::collection::vec(term(), 0..6), space in "[ \t]{1,2}") {
            let domain = "example.org".parse().unwrap();
            let policy = format!("v=spf1{space}{}", terms.join(&space));
            let dns = FakeDns::default();
            dns.set_txt("example.org", &[&policy]);
            dns.set_addresses("example.org", &["192.0.2.1", "2001:db8::1"]);
            dns.set_mx("example.org", &["example.org"]);
            let addresses = vec!["192.0.2.1".parse().unwrap(), "2001:db8::2".parse().unwrap()];
            let context = Context { dns: &dns, domain: &domain, host: "mx.example.org", addresses: Ok(addresses) };
            let check = check(&context).now_or_never().expect("this DNS answers at once");
            prop_assert!(!check.hint.is_empty());
        }
    }
}
