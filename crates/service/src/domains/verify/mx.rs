//! Checks the MX records.

use super::{Context, RecordCheck, RecordStatus, present};

pub(super) async fn check(context: &Context<'_>) -> RecordCheck {
    let to_set = context.name_to_set();
    let expected = if to_set.is_some() { String::new() } else { format!("10 {}.", context.host) };
    let check = RecordCheck::required("MX", context.domain.to_string(), expected);
    let mut exchanges = match present(context.dns.mx(context.domain.as_str()).await) {
        Err(error) => return check.unanswered(&error),
        Ok(exchanges) => exchanges,
    };
    exchanges.sort();
    let found: Vec<_> = exchanges.iter().map(|mx| format!("{} {}", mx.preference, mx.exchange)).collect();
    if let Some(hint) = to_set {
        let status = if exchanges.is_empty() { RecordStatus::Missing } else { RecordStatus::Mismatch };
        return check.with(status, found, hint);
    }
    if exchanges.is_empty() {
        let hint = "Add the record; without it mail for the domain does not reach this server.";
        return check.with(RecordStatus::Missing, found, hint);
    }
    let hosts: Vec<&str> = exchanges.iter().map(|mx| mx.exchange.as_str()).collect();
    match context.this_server_among(&hosts).await {
        Err(why) => check.finding(found).unsure(&why),
        Ok(Some(host)) if host.eq_ignore_ascii_case(context.host) => {
            check.with(RecordStatus::Ok, found, "Mail for the domain reaches this server.")
        }
        // An exchange under another name is right if it shares an address with the mail server.
        Ok(Some(host)) => {
            let hint = format!("{host} has an address of {}: mail for the domain reaches this server.", context.host);
            check.with(RecordStatus::Ok, found, hint)
        }
        Ok(None) => {
            let hint =
                format!("Mail for the domain goes to another server; add {} unless that is intended.", context.host);
            check.with(RecordStatus::Mismatch, found, hint)
        }
    }
}
