//! Checks the records of the pages that this server shows for a domain, and the records about TLS that need them.

use super::{Context, RecordCheck, RecordStatus, advice, present};
use crate::MailPrograms;
use crate::domains::hosted::{AUTOCONFIG, STS};

/// The port of HTTPS for everyone.
const HTTPS_PORT: u16 = 443;

/// Checks all of them. Without `web_host`, no page can be reached, so there are no records.
pub(in crate::domains) async fn check(
    context: &Context<'_>,
    web_host: Option<&str>,
    programs: MailPrograms,
) -> Vec<RecordCheck> {
    let Some(web_host) = web_host else { return Vec::new() };
    let (policies, policy_host) = tokio::join!(
        advice::policies(context),
        alias(context, "MTA-STS-HOST", STS, web_host, "other mail servers read")
    );
    let mut checks = vec![policy_host];
    checks.extend(policies);
    if let Some(others) = other_exchanges(context).await {
        // Senders that honour the policy would refuse the other servers.
        let hint = format!("Not while the MX records name {others} too: the policy allows this server alone.");
        let undecided = |check: RecordCheck| {
            let found = check.found.clone();
            RecordCheck { expected: String::new(), ..check.with(RecordStatus::Undecided, found, hint.clone()) }
        };
        checks =
            checks.into_iter().map(|check| if check.kind == "MTA-STS" { undecided(check) } else { check }).collect();
    }
    if programs != MailPrograms::Elsewhere {
        checks.push(alias(context, "AUTOCONFIG", AUTOCONFIG, web_host, "mail programs read").await);
        checks.push(autodiscover(context, web_host).await);
    }
    checks
}

/// Returns a published exchange of the domain that is not this server.
async fn other_exchanges(context: &Context<'_>) -> Option<String> {
    let published = context.dns.mx(context.domain.as_str()).await.unwrap_or_default();
    let other = |host: &String| !host.trim_end_matches('.').eq_ignore_ascii_case(context.host);
    published.into_iter().map(|mx| mx.exchange).find(other)
}

/// Checks a host name that leads to this server.
async fn alias(context: &Context<'_>, kind: &'static str, label: &str, web_host: &str, readers: &str) -> RecordCheck {
    let name = format!("{label}.{}", context.domain);
    let check = RecordCheck::required(kind, name, format!("{web_host}.")).advised();
    let dns = context.dns;
    let (found, ours, target) =
        tokio::join!(dns.addresses(&check.name), dns.addresses(web_host), dns.alias_target(&check.name));
    let (found, ours) = match (present(found), present(ours)) {
        (Ok(found), Ok(ours)) => (found, ours),
        (Err(error), _) | (_, Err(error)) => return check.unanswered(&error),
    };
    let shown: Vec<_> = match target {
        Ok(Some(target)) => vec![target],
        // Without an answer about an alias, the addresses are still those that count.
        Ok(None) | Err(_) => found.iter().map(ToString::to_string).collect(),
    };
    let hint = format!("At this name {readers} settings of the domain from this server.");
    match () {
        () if found.is_empty() => check.with(RecordStatus::Missing, shown, hint),
        () if found.iter().any(|address| ours.contains(address)) => check.with(RecordStatus::Ok, shown, hint),
        () => check.with(RecordStatus::Mismatch, shown, format!("{hint} It leads to another server.")),
    }
}

/// Checks the record by which Outlook finds its settings, whatever host the domain itself is.
async fn autodiscover(context: &Context<'_>, web_host: &str) -> RecordCheck {
    let name = format!("_autodiscover._tcp.{}", context.domain);
    let check = RecordCheck::required("AUTODISCOVER", name, format!("0 1 {HTTPS_PORT} {web_host}.")).advised();
    let locations = match present(context.dns.srv(&check.name).await) {
        Err(error) => return check.unanswered(&error),
        Ok(locations) => locations,
    };
    let is_here = locations.iter().any(|at| at.port == HTTPS_PORT && at.target.eq_ignore_ascii_case(web_host));
    let found: Vec<_> = locations.iter().map(super::programs::shown).collect();
    let status = match (found.is_empty(), is_here) {
        (true, _) => RecordStatus::Missing,
        (false, true) => RecordStatus::Ok,
        (false, false) => RecordStatus::Mismatch,
    };
    check.with(status, found, "Outlook finds the settings of the domain by this record.")
}
