//! Checks of recommended records: mail works without them, but less well.

use mailapi_backend::DnsError;

use super::tags::Tags;
use super::{Context, RecordCheck, RecordStatus, texts};
use crate::domains::hosted::policy_id;

/// Checks the records about TLS.
pub(super) async fn policies(context: &Context<'_>) -> Vec<RecordCheck> {
    let (sts, reports) = tokio::join!(mta_sts(context), tls_rpt(context));
    vec![sts, reports]
}

/// Checks the announcement of a policy that makes other servers require TLS (RFC 8461 section 3.1).
async fn mta_sts(context: &Context<'_>) -> RecordCheck {
    let name = format!("_mta-sts.{}", context.domain);
    let check = RecordCheck::required("MTA-STS", name, format!("v=STSv1; id={}", policy_id(context.host))).advised();
    tagged(
        context,
        check,
        "STSv1",
        "id",
        "The record lets other servers require TLS. Publish it after the policy can be read at the host mta-sts.",
    )
    .await
}

/// Checks the address for reports of TLS failures (RFC 8460 section 3).
async fn tls_rpt(context: &Context<'_>) -> RecordCheck {
    let name = format!("_smtp._tls.{}", context.domain);
    let expected = format!("v=TLSRPTv1; rua=mailto:postmaster@{}", context.domain);
    let check = RecordCheck::required("TLS-RPT", name, expected).advised();
    tagged(context, check, "TLSRPTv1", "rua", "The record lets other servers report TLS failures to you.").await
}

async fn tagged(context: &Context<'_>, check: RecordCheck, version: &str, tag: &str, purpose: &str) -> RecordCheck {
    let found = match texts(context.dns, &check.name).await {
        Err(error) => return check.unanswered(&error),
        Ok(found) => found,
    };
    let right = |text: &String| {
        let tags = Tags::of(text);
        tags.has_version(version) && tags.get(tag).is_some_and(|value| !value.is_empty())
    };
    let status = match (found.is_empty(), found.iter().any(right)) {
        (true, _) => RecordStatus::Missing,
        (false, true) => RecordStatus::Ok,
        (false, false) => RecordStatus::Mismatch,
    };
    check.with(status, found, purpose)
}

/// Checks that the sending addresses resolve to the server's name.
pub(in crate::domains) async fn ptr(context: &Context<'_>) -> Vec<RecordCheck> {
    if let Some(hint) = context.name_to_set() {
        let check = RecordCheck::required("PTR", context.host.to_owned(), String::new()).advised();
        return vec![check.with(RecordStatus::Missing, Vec::new(), hint)];
    }
    let expected = context.host.to_owned();
    let addresses = match &context.addresses {
        Ok(addresses) if !addresses.is_empty() => addresses,
        answer => {
            let check = RecordCheck::required("PTR", context.host.to_owned(), expected).advised();
            let hint = format!("{} has no address in DNS, so the sending address is unknown.", context.host);
            return vec![match answer {
                Ok(_) => check.with(RecordStatus::Missing, Vec::new(), hint),
                Err(error) => check.unanswered(error),
            }];
        }
    };
    let mut checks = Vec::new();
    for address in addresses {
        let check = RecordCheck::required("PTR", address.to_string(), expected.clone()).advised();
        let hint = "Ask the provider of the address to set the server's name; many receivers reject mail without it.";
        checks.push(match context.dns.names_of(*address).await {
            Err(DnsError::NoSuchName) => check.with(RecordStatus::Missing, Vec::new(), hint),
            Err(error) => check.unanswered(&error),
            Ok(found) if found.is_empty() => check.with(RecordStatus::Missing, found, hint),
            Ok(found) if found.iter().any(|name| name.eq_ignore_ascii_case(context.host)) => {
                check.with(RecordStatus::Ok, found, "The address resolves to the server's name.")
            }
            Ok(found) => check.with(RecordStatus::Mismatch, found, hint),
        });
    }
    checks
}
