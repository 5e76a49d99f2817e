//! Checks the MX records.

use mailapi_backend::DnsError;

use super::{Context, RecordCheck, RecordStatus};

pub(super) async fn check(context: &Context<'_>) -> RecordCheck {
    let to_set = context.name_to_set();
    let expected = if to_set.is_some() { String::new() } else { format!("10 {}.", context.host) };
    let check = RecordCheck::required("MX", context.domain.to_string(), expected);
    let exchanges = match context.dns.mx(context.domain.as_str()).await {
        Err(DnsError::NoSuchName) => Vec::new(),
        Err(error) => return check.unanswered(&error),
        Ok(exchanges) => exchanges,
    };
    let found = exchanges.iter().map(|mx| format!("{} {}", mx.preference, mx.exchange)).collect();
    if let Some(hint) = to_set {
        let status = if exchanges.is_empty() { RecordStatus::Missing } else { RecordStatus::Mismatch };
        return check.with(status, found, hint);
    }
    if exchanges.is_empty() {
        return check.with(
            RecordStatus::Missing,
            found,
            "Add the record; without it mail for the domain does not reach this server.",
        );
    }
    // An exchange under another name is right if it shares an address with the mail server.
    for exchange in exchanges.iter().map(|mx| mx.exchange.as_str()) {
        if exchange.eq_ignore_ascii_case(context.host) {
            return check.with(RecordStatus::Ok, found, "Mail for the domain reaches this server.");
        }
        let theirs = context.dns.addresses(exchange).await.unwrap_or_default();
        if theirs.iter().any(|address| context.addresses.contains(address)) {
            let hint =
                format!("{exchange} has an address of {}: mail for the domain reaches this server.", context.host);
            return check.with(RecordStatus::Ok, found, hint);
        }
    }
    let hint = format!("Mail for the domain goes to another server; add {} unless that is intended.", context.host);
    check.with(RecordStatus::Mismatch, found, hint)
}
