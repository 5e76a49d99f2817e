//! Checks the published DKIM keys.

use mailapi_model::{DkimKey, DkimState, DomainKey};

use super::tags::Tags;
use super::{Context, RecordCheck, RecordStatus, texts};

const NO_KEY: &str = "The domain has no key; it gets one when it is approved, or when an admin requests one.";

/// Checks the keys. Those that sign are required. The record of a retiring key stays, but mail of today does not need it.
pub(super) async fn check(context: &Context<'_>, keys: &[DomainKey]) -> Vec<RecordCheck> {
    if keys.is_empty() {
        let check = RecordCheck::required("DKIM", format!("_domainkey.{}", context.domain), String::new());
        return vec![check.with(RecordStatus::Missing, Vec::new(), NO_KEY)];
    }
    let mut checks = Vec::new();
    let shown = keys.iter().filter(|key| key.state() == DkimState::Active || key.state().waits());
    for (place, DomainKey { key, steps }) in shown.enumerate() {
        let check = check_key(context, key).await;
        // Keys that sign come first. Without one, mail needs the first key that waits.
        let is_required = place == 0 || steps.state() == DkimState::Active;
        checks.push(if is_required { check } else { check.advised() });
    }
    checks
}

async fn check_key(context: &Context<'_>, key: &DkimKey) -> RecordCheck {
    let check = RecordCheck::required("DKIM", key.dns_name(context.domain), key.dns_value());
    let found = match texts(context.dns, &check.name).await {
        Err(error) => return check.unanswered(&error),
        Ok(found) => found,
    };
    if found.is_empty() {
        let hint = "Add the record; without it receivers cannot verify signatures made with this key.";
        return check.with(RecordStatus::Missing, found, hint);
    }
    if found.iter().any(|text| publishes(text, key)) {
        return check.with(RecordStatus::Ok, found, "The published key is this server's key.");
    }
    check.with(RecordStatus::Mismatch, found, "The published key does not match this server's key; replace the record.")
}

/// Whether a record publishes this key: `p=` must match apart from white space (RFC 6376 section 3.6.1).
pub(in crate::domains) fn publishes(text: &str, key: &DkimKey) -> bool {
    let tags = Tags::of(text);
    let published: String = tags.get("p").unwrap_or_default().chars().filter(|c| !c.is_whitespace()).collect();
    let kind = tags.get("k").unwrap_or("rsa");
    let version = tags.get("v").unwrap_or("DKIM1");
    published == key.public_key && kind == key.algorithm.key_type() && version == "DKIM1"
}
