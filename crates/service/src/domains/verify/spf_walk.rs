//! Evaluates an SPF policy and those that it includes (RFC 7208), for the addresses of this server and for strangers. The
//! types of mail-auth, which parses policies, stay in this file.

use std::net::IpAddr;

use mail_auth::common::parse::TxtRecordParser;
use mail_auth::spf::{Directive, Macro, Mechanism, Qualifier, Spf};
use mailapi_backend::{Dns, DnsError};

use super::spf::is_policy;
use super::{spf_grammar, texts};

/// Maximum number of look-ups for one policy; more make the policy invalid (RFC 7208 section 4.6.4).
pub(super) const MAX_LOOKUPS: u32 = 10;

/// Maximum number of look-ups to count for the report. A tree of includes can be arbitrarily large, so the walk
/// ends here; the policy is invalid by then.
const MAX_COUNTED: u32 = 10 * MAX_LOOKUPS;

/// Maximum number of mail servers per `mx` mechanism (RFC 7208 section 4.6.4).
const MAX_EXCHANGES: usize = 10;

/// Maximum depth of includes. Each level costs a look-up, so a deeper chain exceeds their limit.
const MAX_DEPTH: u32 = MAX_LOOKUPS + 1;

/// Maximum number of characters of a wrong term to show; a policy can be one term of 64 KiB.
const MAX_SHOWN: usize = 60;

/// IPv4 addresses from which a policy allows a large part of the Internet: two networks of the length 8. The largest senders
/// name less than a tenth of one.
const MANY_ADDRESSES4: u64 = 1 << 25;
/// The same for IPv6, of whose networks no provider has one of the length 15.
const MANY_ADDRESSES6: u128 = 1 << 113;

/// The result of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PolicyResult {
    pub(super) own: OwnResult,
    pub(super) strangers: StrangerResult,
}

/// The result of a policy for the server's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnResult {
    Allowed,
    NotAllowed,
    /// The result depends on data of a real message.
    Unknown,
}

/// What a policy says about servers that it does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::domains) enum StrangerResult {
    /// They should not send, by `-all` or `~all`.
    Distrusted,
    /// Nothing.
    Neutral,
    /// They may send, or a large part of the Internet may.
    Allowed,
    /// A mechanism depends on data of a real message.
    Unknown,
}

/// Why a policy has no result.
pub(super) enum Fault {
    /// A look-up failed.
    Dns(DnsError),
    /// The policy is invalid, for this reason.
    Broken(String),
    /// The policy is invalid, since it needs this many look-ups.
    Costly(u32),
}

/// The evaluation of a policy and its includes.
pub(super) struct PolicyWalk<'a> {
    dns: &'a dyn Dns,
    addresses: &'a [IpAddr],
    lookups: u32,
    allowed4: u64,
    allowed6: u128,
}

/// Which servers a mechanism matches.
struct MechanismMatch {
    own: OwnResult,
    strangers: StrangerMatch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StrangerMatch {
    All,
    Named,
    Unknown,
}

/// The place of a policy in the tree of includes.
#[derive(Clone, Copy)]
struct TreePlace {
    depth: u32,
    /// Whether a match allows a server in the end.
    is_allowing: bool,
}

impl<'a> PolicyWalk<'a> {
    pub(super) const fn new(dns: &'a dyn Dns, addresses: &'a [IpAddr]) -> Self {
        Self { dns, addresses, lookups: 0, allowed4: 0, allowed6: 0 }
    }

    /// The look-ups that the policy needs.
    pub(super) const fn lookups(&self) -> u32 {
        self.lookups
    }

    /// Evaluates the policy of a domain.
    pub(super) async fn evaluate(&mut self, domain: &str, policy: &str) -> Result<PolicyResult, Fault> {
        let mut result = self.policy(domain, policy, TreePlace { depth: 0, is_allowing: true }).await?;
        if self.lookups > MAX_LOOKUPS {
            return Err(Fault::Costly(self.lookups));
        }
        if self.allowed4 >= MANY_ADDRESSES4 || self.allowed6 >= MANY_ADDRESSES6 {
            result.strangers = StrangerResult::Allowed;
        }
        Ok(result)
    }

    /// Evaluates a policy. All mechanisms count, even after the deciding one: mail that matches none costs a
    /// receiver all their look-ups.
    async fn policy(&mut self, domain: &str, text: &str, place: TreePlace) -> Result<PolicyResult, Fault> {
        let broken = |what: &str| Fault::Broken(format!("The policy of {domain} has a syntax error{what}."));
        if let Some(term) = spf_grammar::wrong_term(text) {
            let shown: String = term.chars().take(MAX_SHOWN).collect();
            return Err(broken(&format!(" in {shown}")));
        }
        let parsed = spf_grammar::decisive(text).and_then(|text| Spf::parse(text.as_bytes()).ok());
        let policy = parsed.ok_or_else(|| broken(""))?;
        let (mut own, mut strangers, mut is_unsure) = (None, None, false);
        for Directive { mechanism, qualifier } in &policy.directives {
            let is_passing = *qualifier == Qualifier::Pass;
            let inner = TreePlace { is_allowing: place.is_allowing && is_passing && strangers.is_none(), ..place };
            let matched = self.matches(domain, mechanism, inner).await?;
            own = own.or(match (matched.own, is_passing) {
                (OwnResult::NotAllowed, _) => None,
                (OwnResult::Allowed, false) => Some(OwnResult::NotAllowed),
                (result, _) => Some(result),
            });
            is_unsure |= is_passing && matched.strangers == StrangerMatch::Unknown;
            strangers = strangers.or((matched.strangers == StrangerMatch::All).then(|| of_strangers(qualifier)));
        }
        if let Some(target) = policy.redirect.as_ref().filter(|_| own.is_none() || strangers.is_none()) {
            let other = self.other_policy(target, domain, place).await?;
            own = own.or(Some(other.own));
            strangers = strangers.or(Some(other.strangers));
        }
        let strangers = strangers.unwrap_or(StrangerResult::Neutral);
        let is_open = is_unsure && strangers != StrangerResult::Allowed;
        Ok(PolicyResult {
            own: own.unwrap_or(OwnResult::NotAllowed),
            strangers: if is_open { StrangerResult::Unknown } else { strangers },
        })
    }

    async fn matches(
        &mut self,
        domain: &str,
        mechanism: &Mechanism,
        place: TreePlace,
    ) -> Result<MechanismMatch, Fault> {
        Ok(match mechanism {
            Mechanism::All => MechanismMatch { own: OwnResult::Allowed, strangers: StrangerMatch::All },
            Mechanism::Ip4 { addr, mask } => self.network(&[(*addr).into()], (*mask, 0), place),
            Mechanism::Ip6 { addr, mask } => self.network(&[(*addr).into()], (0, *mask), place),
            Mechanism::Include { macro_string } => self.included(macro_string, domain, place).await?,
            Mechanism::A { macro_string, ip4_mask, ip6_mask } => {
                self.count_lookup()?;
                let Some(host) = self.worth_asking(macro_string, domain) else { return Ok(MechanismMatch::UNKNOWN) };
                let theirs = self.addresses_of(&host).await?;
                self.network(&theirs, (*ip4_mask, *ip6_mask), place)
            }
            Mechanism::Mx { macro_string, ip4_mask, ip6_mask } => {
                self.count_lookup()?;
                let Some(name) = self.worth_asking(macro_string, domain) else { return Ok(MechanismMatch::UNKNOWN) };
                let theirs = self.addresses_of_exchanges(&name).await?;
                self.network(&theirs, (*ip4_mask, *ip6_mask), place)
            }
            // It matches hosts whose own name is below the domain.
            Mechanism::Ptr { .. } => {
                self.count_lookup()?;
                MechanismMatch { own: OwnResult::Unknown, strangers: StrangerMatch::Named }
            }
            Mechanism::Exists { macro_string } => {
                self.count_lookup()?;
                let Some(name) = self.worth_asking(macro_string, domain) else { return Ok(MechanismMatch::UNKNOWN) };
                match self.addresses_of(&name).await?.is_empty() {
                    true => MechanismMatch::NAMED,
                    false => MechanismMatch { own: OwnResult::Allowed, strangers: StrangerMatch::All },
                }
            }
        })
    }

    /// Matches the networks of addresses.
    fn network(&mut self, theirs: &[IpAddr], masks: (u32, u128), place: TreePlace) -> MechanismMatch {
        if place.is_allowing {
            theirs.iter().for_each(|address| match address {
                IpAddr::V4(_) => self.allowed4 = self.allowed4.saturating_add(u64::from(!masks.0) + 1),
                IpAddr::V6(_) => self.allowed6 = self.allowed6.saturating_add((!masks.1).saturating_add(1)),
            });
        }
        let is_ours = |ours: &IpAddr| theirs.iter().any(|their| within(*ours, *their, masks));
        let own = if self.addresses.iter().any(is_ours) { OwnResult::Allowed } else { OwnResult::NotAllowed };
        MechanismMatch { own, strangers: StrangerMatch::Named }
    }

    async fn included(&mut self, target: &Macro, domain: &str, place: TreePlace) -> Result<MechanismMatch, Fault> {
        let other = self.other_policy(target, domain, place).await?;
        // It matches what the other policy allows (RFC 7208 section 5.2).
        let strangers = match other.strangers {
            StrangerResult::Allowed => StrangerMatch::All,
            StrangerResult::Unknown => StrangerMatch::Unknown,
            StrangerResult::Distrusted | StrangerResult::Neutral => StrangerMatch::Named,
        };
        Ok(MechanismMatch { own: other.own, strangers })
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
    async fn other_policy(&mut self, target: &Macro, domain: &str, place: TreePlace) -> Result<PolicyResult, Fault> {
        self.count_lookup()?;
        let Some(name) = literal(target, domain) else { return Ok(PolicyResult::UNKNOWN) };
        if place.depth >= MAX_DEPTH {
            return Err(Fault::Broken(format!("The includes do not end within {MAX_LOOKUPS} look-ups.")));
        }
        let found = texts(self.dns, &name).await.map_err(Fault::Dns)?;
        let policies: Vec<&String> = found.iter().filter(|text| is_policy(text)).collect();
        match policies[..] {
            [policy] => Box::pin(self.policy(&name, policy, TreePlace { depth: place.depth + 1, ..place })).await,
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
}

impl PolicyResult {
    const UNKNOWN: Self = Self { own: OwnResult::Unknown, strangers: StrangerResult::Unknown };
}

impl MechanismMatch {
    const UNKNOWN: Self = Self { own: OwnResult::Unknown, strangers: StrangerMatch::Unknown };
    const NAMED: Self = Self { own: OwnResult::NotAllowed, strangers: StrangerMatch::Named };
}

/// What a mechanism that matches every server says about strangers.
const fn of_strangers(qualifier: &Qualifier) -> StrangerResult {
    match qualifier {
        Qualifier::Pass => StrangerResult::Allowed,
        Qualifier::Fail | Qualifier::SoftFail => StrangerResult::Distrusted,
        Qualifier::Neutral => StrangerResult::Neutral,
    }
}

/// Whether the addresses have the same family and are equal under its mask.
fn within(ours: IpAddr, theirs: IpAddr, (mask4, mask6): (u32, u128)) -> bool {
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

    use super::*;

    fn of(terms: &str) -> StrangerResult {
        let dns = FakeDns::default();
        for (name, policy) in [
            ("open.example", "v=spf1 +all"),
            ("strict.example", "v=spf1 ip4:192.0.2.0/24 -all"),
            ("vague.example", "v=spf1 ip4:192.0.2.0/24"),
            ("half.example", "v=spf1 ip4:0.0.0.0/1 -all"),
            ("shut.example", "v=spf1 -ip4:0.0.0.0/0 -all"),
            ("macro.example", "v=spf1 exists:%{i}.example.org -all"),
        ] {
            dns.set_txt(name, &[policy]);
        }
        dns.set_addresses("there.example", &["192.0.2.1", "2001:db8::1"]);
        dns.set_mx("example.org", &["there.example"]);
        let mut walk = PolicyWalk::new(&dns, &[]);
        match walk.evaluate("example.org", &format!("v=spf1 {terms}")).now_or_never().unwrap() {
            Ok(result) => result.strangers,
            Err(Fault::Broken(why)) => panic!("{terms}: {why}"),
            Err(_) => panic!("{terms}"),
        }
    }

    #[test]
    fn policies_say_something_about_strangers() {
        use StrangerResult::{Allowed, Distrusted, Neutral, Unknown};
        for (terms, result) in [
            ("mx -all", Distrusted),
            ("mx ~ALL", Distrusted),
            ("mx ~all redirect=open.example", Distrusted),
            ("mx ?all", Neutral),
            ("mx", Neutral),
            ("", Neutral),
            ("mx all", Allowed),
            ("mx +all", Allowed),
            ("-all +all", Distrusted),
            ("ip4:0.0.0.0/0 -all", Allowed),
            ("ip4:0.0.0.0/1 ip4:128.0.0.0/1 -all", Allowed),
            ("ip4:10.0.0.0/8 -all", Distrusted),
            ("ip6:::/0 -all", Allowed),
            ("ip6:2001:db8::/32 ip4:192.0.2.0/24 -all", Distrusted),
            ("a:there.example/0 -all", Allowed),
            ("a:there.example//0 -all", Allowed),
            ("mx/1 -all", Allowed),
            ("-all ip4:0.0.0.0/0", Distrusted),
            ("?ip4:0.0.0.0/0 -all", Distrusted),
            ("include:strict.example -all", Distrusted),
            ("include:vague.example ~all", Distrusted),
            ("include:open.example -all", Allowed),
            ("?include:open.example -all", Neutral),
            ("-include:half.example -all", Distrusted),
            ("include:half.example -all", Allowed),
            ("include:shut.example -all", Distrusted),
            ("redirect=strict.example", Distrusted),
            ("redirect=vague.example", Neutral),
            ("redirect=open.example", Allowed),
            ("redirect=%{d}.example", Unknown),
            ("exists:there.example -all", Allowed),
            ("exists:nowhere.example -all", Distrusted),
            ("exists:%{i}.example.org -all", Unknown),
            ("include:macro.example -all", Unknown),
            ("include:%{i}.example -all", Unknown),
            ("exists:%{i}.example.org +all", Allowed),
            ("-exists:%{i}.example.org -all", Distrusted),
            ("ptr -all", Distrusted),
        ] {
            assert_eq!(of(terms), result, "{terms}");
        }
    }
}
