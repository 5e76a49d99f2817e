//! SPF (RFC 7208). mail-auth parses policies and expands macros. The evaluation is here, because that of
//! mail-auth asks its own DNS client.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mail_auth::common::parse::TxtRecordParser;
use mail_auth::spf::{Macro, Mechanism, Qualifier, Spf, Variables};
use mailapi_backend::Dns;
use mailapi_model::AuthenticationResult;

use super::lookups::{Lookups, MAX_NAMES, Unanswered};
use crate::dns_names::{is_name, plain};
use crate::domains::decisive_spf;

/// Maximum number of terms that need look-ups (RFC 7208 section 4.6.4).
const MAX_TERMS: u32 = 10;

/// Maximum number of look-ups without records (RFC 7208 section 4.6.4).
const MAX_VOID: u32 = 2;

/// Maximum number of look-ups. Common policies need below 20; ten `mx` terms could ask for 110 names.
const MAX_LOOKUPS: usize = 40;

/// Time limit. RFC 7208 section 4.6.4 recommends 20 s at least, but for one name server after the other; the client
/// waits meanwhile, and a temporary error refuses nothing.
const TIME: Duration = Duration::from_secs(15);

/// The result of the check, and the domain that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SpfCheck {
    pub(super) result: AuthenticationResult,
    /// The domain of the reverse-path, or the client's name for the null reverse-path.
    pub(super) domain: String,
    /// Whether the domain is the client's name.
    pub(super) is_client_name: bool,
}

/// Checks whether `client` may send for the domain of `sender`, or for `client_name` if the sender is empty.
pub(super) async fn check(dns: &dyn Dns, client: IpAddr, client_name: &str, sender: &str) -> SpfCheck {
    let is_client_name = sender.is_empty();
    let domain = if is_client_name { client_name } else { sender.rsplit_once('@').map_or("", |(_, domain)| domain) };
    let domain = mail_auth::common::to_a_label(plain(domain)).to_ascii_lowercase();
    let sender = if sender.contains('@') { sender.to_owned() } else { format!("postmaster@{domain}") };
    let lookups = Lookups::new(dns, MAX_LOOKUPS, TIME);
    let mut evaluation = Evaluation { lookups, client, client_name, sender, terms: 0, void: 0 };
    // A single label or an address literal has no policy (RFC 7208 section 4.3).
    let result = if domain.contains('.') && is_name(&domain) {
        evaluation.check_host(domain.clone()).await.unwrap_or_else(Trouble::result)
    } else {
        AuthenticationResult::None
    };
    SpfCheck { result, domain, is_client_name }
}

/// The evaluation ends without a statement of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Temporary,
    Permanent,
}

impl Trouble {
    const fn result(self) -> AuthenticationResult {
        match self {
            Self::Temporary => AuthenticationResult::Temperror,
            Self::Permanent => AuthenticationResult::Permerror,
        }
    }
}

impl From<Unanswered> for Trouble {
    fn from(_: Unanswered) -> Self {
        Self::Temporary
    }
}

struct Evaluation<'a> {
    lookups: Lookups<'a>,
    client: IpAddr,
    client_name: &'a str,
    sender: String,
    terms: u32,
    void: u32,
}

impl Evaluation<'_> {
    /// The function `check_host()` of RFC 7208 section 4. Each recursion counts a term, which bounds its depth.
    fn check_host(&mut self, domain: String) -> BoxFuture<'_, Result<AuthenticationResult, Trouble>> {
        Box::pin(async move {
            let Some(policy) = self.policy(&domain).await? else { return Ok(AuthenticationResult::None) };
            for directive in &policy.directives {
                if self.matches(&directive.mechanism, &domain).await? {
                    return Ok(result_of(&directive.qualifier));
                }
            }
            let Some(redirect) = &policy.redirect else { return Ok(AuthenticationResult::Neutral) };
            self.count_term()?;
            let target = self.expand(redirect, &domain).await?.ok_or(Trouble::Permanent)?;
            match self.check_host(target).await? {
                AuthenticationResult::None => Err(Trouble::Permanent),
                result => Ok(result),
            }
        })
    }

    /// Returns the policy of a domain. Two policies are an error (RFC 7208 section 4.5), and so is a term that the
    /// grammar does not allow (section 4.6), which mail-auth skips.
    async fn policy(&self, domain: &str) -> Result<Option<Spf>, Trouble> {
        let mut texts = self.lookups.txt(domain).await?;
        texts.retain(|text| is_policy(text));
        match texts.as_slice() {
            [] => Ok(None),
            [text] => {
                let policy = decisive_spf(text).and_then(|text| Spf::parse(text.as_bytes()).ok());
                policy.map(Some).ok_or(Trouble::Permanent)
            }
            _ => Err(Trouble::Permanent),
        }
    }

    async fn matches(&mut self, mechanism: &Mechanism, domain: &str) -> Result<bool, Trouble> {
        match mechanism {
            Mechanism::All => Ok(true),
            Mechanism::Ip4 { addr, mask } => Ok(self.is_within(IpAddr::V4(*addr), *mask, 0)),
            Mechanism::Ip6 { addr, mask } => Ok(self.is_within(IpAddr::V6(*addr), 0, *mask)),
            Mechanism::A { macro_string, ip4_mask, ip6_mask } => {
                let Some(host) = self.target(macro_string, domain).await? else { return Ok(false) };
                Ok(self.addresses(&host).await?.into_iter().any(|found| self.is_within(found, *ip4_mask, *ip6_mask)))
            }
            Mechanism::Mx { macro_string, ip4_mask, ip6_mask } => {
                let Some(target) = self.target(macro_string, domain).await? else { return Ok(false) };
                self.matches_mx(&target, *ip4_mask, *ip6_mask).await
            }
            Mechanism::Include { macro_string } => {
                let target = self.target(macro_string, domain).await?.ok_or(Trouble::Permanent)?;
                match self.check_host(target).await? {
                    AuthenticationResult::Pass => Ok(true),
                    AuthenticationResult::None => Err(Trouble::Permanent),
                    _ => Ok(false),
                }
            }
            Mechanism::Ptr { macro_string } => {
                let Some(target) = self.target(macro_string, domain).await? else { return Ok(false) };
                Ok(self.lookups.confirmed_names(self.client).await.iter().any(|name| is_below(name, &target)))
            }
            Mechanism::Exists { macro_string } => {
                let Some(host) = self.target(macro_string, domain).await? else { return Ok(false) };
                Ok(self.addresses(&host).await?.iter().any(IpAddr::is_ipv4))
            }
        }
    }

    async fn matches_mx(&mut self, target: &str, mask4: u32, mask6: u128) -> Result<bool, Trouble> {
        let mut exchanges = self.lookups.mx(target).await?;
        self.count_void(exchanges.is_empty())?;
        if exchanges.len() > MAX_NAMES {
            return Err(Trouble::Permanent);
        }
        exchanges.sort();
        for exchange in exchanges {
            let addresses = self.lookups.addresses(&exchange.exchange).await?;
            if addresses.into_iter().any(|found| self.is_within(found, mask4, mask6)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn addresses(&mut self, host: &str) -> Result<Vec<IpAddr>, Trouble> {
        let addresses = self.lookups.addresses(host).await?;
        self.count_void(addresses.is_empty())?;
        Ok(addresses)
    }

    /// Counts a term, and returns the name that it asks for; `None` if it is not a domain name, which never matches.
    async fn target(&mut self, text: &Macro, domain: &str) -> Result<Option<String>, Trouble> {
        self.count_term()?;
        self.expand(text, domain).await
    }

    async fn expand(&mut self, text: &Macro, domain: &str) -> Result<Option<String>, Trouble> {
        let validated = if text.needs_ptr() { self.validated_name(domain).await? } else { String::new() };
        let mut variables = Variables::new();
        variables.set_ip(&self.client);
        variables.set_sender(self.sender.as_bytes());
        variables.set_domain(domain.as_bytes());
        variables.set_helo_domain(self.client_name.as_bytes());
        variables.set_validated_domain(validated.as_bytes());
        Ok(shortened(&text.eval(&variables, domain, false)).filter(|name| is_name(name)))
    }

    /// Returns the value of the macro p (RFC 7208 section 7.3), which counts as a term.
    async fn validated_name(&mut self, domain: &str) -> Result<String, Trouble> {
        self.count_term()?;
        let mut names = self.lookups.confirmed_names(self.client).await;
        names.sort_by_key(|name| (name != domain, !is_below(name, domain)));
        Ok(names.into_iter().next().unwrap_or_else(|| "unknown".to_owned()))
    }

    fn is_within(&self, network: IpAddr, mask4: u32, mask6: u128) -> bool {
        match (self.client, network) {
            (IpAddr::V4(client), IpAddr::V4(network)) => client.to_bits() & mask4 == network.to_bits() & mask4,
            (IpAddr::V6(client), IpAddr::V6(network)) => client.to_bits() & mask6 == network.to_bits() & mask6,
            _ => false,
        }
    }

    fn count_term(&mut self) -> Result<(), Trouble> {
        self.terms += 1;
        if self.terms > MAX_TERMS { Err(Trouble::Permanent) } else { Ok(()) }
    }

    fn count_void(&mut self, is_void: bool) -> Result<(), Trouble> {
        self.void += u32::from(is_void);
        if self.void > MAX_VOID { Err(Trouble::Permanent) } else { Ok(()) }
    }
}

/// Returns whether a TXT record is an SPF policy (RFC 7208 section 4.5).
fn is_policy(text: &str) -> bool {
    text.split(' ').next().is_some_and(|version| version.eq_ignore_ascii_case("v=spf1"))
}

const fn result_of(qualifier: &Qualifier) -> AuthenticationResult {
    match qualifier {
        Qualifier::Pass => AuthenticationResult::Pass,
        Qualifier::Fail => AuthenticationResult::Fail,
        Qualifier::SoftFail => AuthenticationResult::Softfail,
        Qualifier::Neutral => AuthenticationResult::Neutral,
    }
}

/// Returns whether `name` is `domain` or below it.
pub(super) fn is_below(name: &str, domain: &str) -> bool {
    let above = name.len().checked_sub(domain.len()).and_then(|at| name.split_at_checked(at));
    above.is_some_and(|(before, end)| end.eq_ignore_ascii_case(domain) && (before.is_empty() || before.ends_with('.')))
}

/// Removes labels from the left until the name is short enough (RFC 7208 section 7.3).
fn shortened(name: &str) -> Option<String> {
    /// Maximum length of a name in octets.
    const MAX: usize = 253;
    let mut name = plain(name);
    while name.len() > MAX {
        name = name.split_once('.')?.1;
    }
    Some(name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use AuthenticationResult::{Fail, Neutral, None, Pass, Permerror, Softfail, Temperror};
    use mailapi_testkit::{FakeDns, HangingDns};
    use proptest::prelude::*;

    use super::*;

    const CLIENT: &str = "192.0.2.7";

    async fn of(dns: &FakeDns, client: &str, client_name: &str, sender: &str) -> AuthenticationResult {
        check(dns, client.parse().unwrap(), client_name, sender).await.result
    }

    /// The result of a policy of far.example for the client.
    async fn result(dns: &FakeDns, policy: &str) -> AuthenticationResult {
        dns.set_txt("far.example", &["some other text", policy]);
        of(dns, CLIENT, "mx.far.example", "zoe@far.example").await
    }

    #[tokio::test]
    async fn a_policy_that_cannot_be_read_is_no_pass() {
        let dns = FakeDns::default();
        for policy in
            ["v=spf1 ip4:900.1.1.1 +all", "v=spf1 include:missing.example +all", "v=spf1 redirect=missing.example"]
        {
            assert_eq!(result(&dns, policy).await, Permerror, "{policy}");
        }
        dns.set_txt("far.example", &["v=spf1 +all", "v=spf1 +all"]);
        assert_eq!(of(&dns, CLIENT, "mx.far.example", "zoe@far.example").await, Permerror);
        for policy in ["v=spf10 +all", "v=spf1+all", "", "spf1 +all"] {
            assert_eq!(result(&dns, policy).await, None, "{policy}");
        }
        for sender in ["zoe@[192.0.2.7]", "zoe@localhost", "zoe@a..b", "zoe@", "zoe"] {
            assert_eq!(of(&dns, CLIENT, "mx.far.example", sender).await, None, "{sender}");
        }
    }

    #[tokio::test]
    async fn the_grammar_of_a_policy_is_strict() {
        let dns = FakeDns::default();
        for policy in ["v=spf1 a/33 ip4:192.0.2.7 -all", "v=spf1 ip4:192.0.2.7\t-all", "v=spf1 ip4:192.0.2.7 x=ü -all"]
        {
            assert_eq!(result(&dns, policy).await, Permerror, "{policy}");
        }
        assert_eq!(result(&dns, "v=spf1 moo= ip4:192.0.2.7 -all").await, Pass, "an unknown modifier may be empty");
    }

    #[tokio::test]
    async fn a_silent_name_server_is_a_temporary_error() {
        let dns = FakeDns::default();
        for name in ["silent.example", "mx.silent.example"] {
            dns.silence(name);
        }
        dns.set_mx("via.example", &["mx.silent.example"]);
        for term in [
            "a:silent.example",
            "mx:silent.example",
            "mx:via.example",
            "include:silent.example",
            "exists:silent.example",
        ] {
            assert_eq!(result(&dns, &format!("v=spf1 {term} -all")).await, Temperror, "{term}");
        }
        assert_eq!(result(&dns, "v=spf1 redirect=silent.example").await, Temperror);
        // The policy does not cover the client's names (RFC 7208 section 5.5).
        dns.silence(CLIENT);
        assert_eq!(result(&dns, "v=spf1 ptr -all").await, Fail);
        assert_eq!(result(&dns, "v=spf1 ip4:192.0.2.0/24 a:silent.example -all").await, Pass);
    }

    #[tokio::test]
    async fn the_number_of_lookups_is_limited() {
        let dns = FakeDns::default();
        dns.set_txt("loop.example", &["v=spf1 include:loop.example -all"]);
        assert_eq!(result(&dns, "v=spf1 include:loop.example ip4:192.0.2.7 -all").await, Permerror);
        let terms = |count: usize| (0..count).map(|n| format!("a:h{n}.example ")).collect::<String>();
        for n in 0..11 {
            dns.set_addresses(&format!("h{n}.example"), &["198.51.100.1"]);
        }
        assert_eq!(result(&dns, &format!("v=spf1 {}ip4:192.0.2.7 -all", terms(10))).await, Pass);
        assert_eq!(result(&dns, &format!("v=spf1 {}ip4:192.0.2.7 -all", terms(11))).await, Permerror);
        assert_eq!(result(&dns, "v=spf1 a:n1.example a:n2.example ip4:192.0.2.7 -all").await, Pass);
        assert_eq!(result(&dns, "v=spf1 a:n1.example mx:n2.example a:n3.example +all").await, Permerror);
        let many: Vec<String> = (0..11).map(|n| format!("h{n}.example")).collect();
        dns.set_mx("many.example", &many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(result(&dns, "v=spf1 mx:many.example +all").await, Permerror);
    }

    #[tokio::test]
    async fn each_mechanism_matches_its_clients() {
        let dns = FakeDns::default();
        dns.set_addresses("mx.far.example", &["192.0.2.7", "2001:db8::7"]);
        dns.set_mx("far.example", &["mx.far.example"]);
        dns.set_names(CLIENT, &["other.example", "MX.far.example."]);
        dns.set_addresses("192.0.2.7.zoe.list.example", &["127.0.0.2"]);
        dns.set_txt("other.example", &["v=spf1 ip4:192.0.2.7 -all"]);
        for (policy, expected) in [
            ("v=spf1 ip4:192.0.2.0/29 -all", Pass),
            ("v=spf1 ip4:192.0.2.8/29 -all", Fail),
            ("v=spf1 ip6:2001:db8::/32 ~all", Softfail),
            ("v=spf1 a:mx.far.example -all", Pass),
            ("V=SPF1 mx ?all", Pass),
            ("v=spf1 ptr -all", Pass),
            ("v=spf1 ptr:other.example -all", Fail),
            ("v=spf1 exists:%{i}.%{l}.list.example -all", Pass),
            ("v=spf1 exists:%{i}.%{l}.none.example -all", Fail),
            ("v=spf1 include:other.example -all", Pass),
            ("v=spf1 -include:other.example +all", Fail),
            ("v=spf1 redirect=other.example", Pass),
            ("v=spf1 a:%{p} -all", Pass),
            ("v=spf1 ip4:198.51.100.1", Neutral),
            ("v=spf1", Neutral),
        ] {
            assert_eq!(result(&dns, policy).await, expected, "{policy}");
        }
    }

    #[tokio::test]
    async fn bounces_are_checked_by_the_name_of_the_client() {
        let dns = FakeDns::default();
        dns.set_txt("mx.far.example", &["v=spf1 ip4:192.0.2.7 ip6:2001:db8::7 -all"]);
        for (client, expected) in [(CLIENT, Pass), ("2001:db8::7", Pass), ("192.0.2.8", Fail)] {
            let checked = check(&dns, client.parse().unwrap(), "MX.far.example.", "").await;
            let expected = SpfCheck { result: expected, domain: "mx.far.example".to_owned(), is_client_name: true };
            assert_eq!(checked, expected);
        }
        assert_eq!(of(&dns, CLIENT, "[192.0.2.7]", "").await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_dns_ends_in_time() {
        let checked = check(&HangingDns, CLIENT.parse().unwrap(), "mx.far.example", "zoe@far.example");
        let in_time = tokio::time::timeout(TIME + Duration::from_secs(1), checked).await;
        assert_eq!(in_time.expect("an answer in time").result, Temperror);
    }

    proptest! {
        #[test]
        fn no_policy_and_no_sender_breaks_the_check(
            terms in prop::collection::vec(
                prop_oneof![
                    "[-+~?]?(a|mx|ptr|exists|include|ip4|ip6|all|x)[:/=]?[ -~]{0,20}",
                    "(a|exists|redirect|exp)[:=](%[{]?[slodipvhcrt][0-9]{0,3}r?[-.+,/_=]{0,3}[}]?|[a-z.]){0,6}",
                ],
                0..6,
            ),
            sender in "[ -~]{0,30}(@[a-z.\\[\\]é]{0,20})?",
            client_name in "[ -~é]{0,20}",
        ) {
            let dns = FakeDns::default();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            for text in [format!("v=spf1 {} -all", terms.join(" ")), terms.join(" ")] {
                dns.set_txt("far.example", &[&text]);
                runtime.block_on(of(&dns, CLIENT, &client_name, &sender));
                runtime.block_on(of(&dns, CLIENT, &client_name, "zoe@far.example"));
            }
        }
    }
}
