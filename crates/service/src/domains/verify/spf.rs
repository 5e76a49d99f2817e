//! Checks the SPF policy (RFC 7208).

use super::spf_walk::{Fault, MAX_LOOKUPS, OwnResult, PolicyResult, PolicyWalk, StrangerResult};
use super::{Context, RecordCheck, RecordStatus, texts};

pub(super) async fn check(context: &Context<'_>) -> RecordCheck {
    look(context).await.0
}

/// Checks the policy, and returns what it says about servers of strangers if it is valid.
pub(super) async fn look(context: &Context<'_>) -> (RecordCheck, Option<StrangerResult>) {
    let domain = context.domain.as_str();
    let host = if context.name_to_set().is_some() { String::new() } else { format!("a:{} ", context.host) };
    let check = RecordCheck::required("SPF", domain.to_owned(), format!("v=spf1 {host}mx -all"));
    let found = match texts(context.dns, domain).await {
        Err(error) => return (check.unanswered(&error), None),
        Ok(found) => found.into_iter().filter(|text| is_policy(text)).collect::<Vec<_>>(),
    };
    let policy = match &found[..] {
        [] => {
            let hint = "Add the record; without it receivers distrust the mail.";
            return (check.with(RecordStatus::Missing, found, hint), None);
        }
        [policy] => policy.clone(),
        _ => {
            let hint = "Receivers treat several policies as an error; keep one.";
            return (check.with(RecordStatus::Mismatch, found, hint), None);
        }
    };
    let mut walk = PolicyWalk::new(context.dns, context.known_addresses());
    match walk.evaluate(domain, &policy).await {
        Err(Fault::Dns(error)) => (check.finding(found).unanswered(&error), None),
        Err(Fault::Broken(why)) => (check.with(RecordStatus::Mismatch, found, why), None),
        Err(Fault::Costly(lookups)) => {
            let hint = format!("The policy needs {lookups} look-ups; with more than {MAX_LOOKUPS} it is invalid.");
            (check.with(RecordStatus::Mismatch, found, hint), None)
        }
        Ok(PolicyResult { own, strangers }) => (judge(check, found, own, walk.lookups(), context), Some(strangers)),
    }
}

fn judge(
    check: RecordCheck,
    found: Vec<String>,
    result: OwnResult,
    lookups: u32,
    context: &Context<'_>,
) -> RecordCheck {
    let lookups = format!("The policy needs {lookups} of {MAX_LOOKUPS} look-ups.");
    match result {
        _ if context.known_addresses().is_empty() => {
            if let Err(error) = &context.addresses {
                return check.finding(found).unanswered(error);
            }
            let hint =
                format!("{lookups} Whether it allows this server is unknown: {} has no address in DNS.", context.host);
            check.with(RecordStatus::Undecided, found, hint)
        }
        OwnResult::Allowed => check.with(RecordStatus::Ok, found, lookups),
        OwnResult::Unknown => {
            let hint = format!("{lookups} It has macros, so only real mail shows whether it allows this server.");
            check.with(RecordStatus::Undecided, found, hint)
        }
        OwnResult::NotAllowed => {
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
    let mut walk = PolicyWalk::new(context.dns, context.known_addresses());
    match walk.evaluate(context.domain.as_str(), &extended).await {
        Err(Fault::Dns(error)) => Err(format!("The DNS look-up failed: {error}.")),
        Err(Fault::Broken(why)) => Err(why),
        Err(Fault::Costly(lookups)) => Err(format!(
            "With this server the policy needs {lookups} look-ups; with more than {MAX_LOOKUPS} it is invalid. Remove an include."
        )),
        Ok(_) => Ok(extended),
    }
}

pub(in crate::domains) fn is_policy(text: &str) -> bool {
    let version = text.split(' ').next().unwrap_or_default();
    version.eq_ignore_ascii_case("v=spf1")
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
