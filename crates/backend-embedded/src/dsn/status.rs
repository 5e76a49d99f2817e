//! Composes the part for programs (RFC 3464 section 2).

use std::fmt::Write;

use mail_builder::headers::date::Date;
use mailapi_model::{EnhancedCode, Timestamp};

use super::address::{is_typed, typed};
use super::{Action, RecipientOutcome, Report};
use crate::replies::one_line;

/// Maximum length of a field value; a longer text is truncated, so that the line needs no encoding.
const MAX_TEXT: usize = 900;

/// Returns the body of `message/delivery-status`.
pub(super) fn delivery_status(report: &Report<'_>) -> String {
    let mut out = String::new();
    if let Some(envelope_id) = report.envelope_id {
        field(&mut out, "Original-Envelope-Id", envelope_id);
    }
    field(&mut out, "Reporting-MTA", &format!("dns;{}", report.hostname));
    field(&mut out, "Arrival-Date", &date(report.arrived_at));
    for outcome in &report.recipients {
        out.push_str("\r\n");
        recipient(&mut out, report, outcome);
    }
    out
}

fn recipient(out: &mut String, report: &Report<'_>, outcome: &RecipientOutcome<'_>) {
    if let Some(original) = outcome.original.filter(|original| is_typed(original)) {
        field(out, "Original-Recipient", original);
    }
    field(out, "Final-Recipient", &typed(outcome.recipient));
    field(out, "Action", action(report.action));
    field(out, "Status", &status(report.action, outcome).to_string());
    if let Some(host) = outcome.relay.map(host) {
        field(out, "Remote-MTA", &format!("dns;{host}"));
    }
    if let Some(reply) = outcome.said_before.as_ref().or(outcome.reply.as_ref()) {
        // A server's reply has the type `smtp`; our own text comes from no protocol (RFC 3464 section 2.3.6).
        let kind = if outcome.relay.is_some() { "smtp" } else { "X-mailapi" };
        field(out, "Diagnostic-Code", &format!("{kind};{reply}"));
    }
    field(out, "Last-Attempt-Date", &date(report.now));
    if let Some(until) = outcome.will_retry_until {
        field(out, "Will-Retry-Until", &date(until));
    }
}

/// Returns the name of an action (RFC 3464 section 2.3.3).
const fn action(action: Action) -> &'static str {
    match action {
        Action::Failed => "failed",
        Action::Delayed => "delayed",
        Action::Delivered => "delivered",
        Action::Relayed => "relayed",
    }
}

/// Returns the status of the reply if its class matches the action, or the most general status of that class
/// (RFC 3464 section 2.3.4).
pub(super) fn status(action: Action, outcome: &RecipientOutcome<'_>) -> EnhancedCode {
    let class = match action {
        Action::Failed => 5,
        Action::Delayed => 4,
        Action::Delivered | Action::Relayed => 2,
    };
    let code = outcome.reply.as_ref().and_then(|reply| reply.enhanced).filter(|code| code.class == class);
    code.unwrap_or(EnhancedCode::new(class, 0, 0))
}

/// Returns `host` of `host[address]:port`.
fn host(relay: &str) -> &str {
    relay.split('[').next().filter(|host| !host.is_empty()).unwrap_or(relay)
}

fn date(moment: Timestamp) -> String {
    Date::new(moment.as_seconds()).to_rfc822()
}

fn field(out: &mut String, name: &str, value: &str) {
    let value: String = one_line(value).chars().map(|c| if c.is_ascii() { c } else { '?' }).take(MAX_TEXT).collect();
    // Writing to a string cannot fail.
    let _ = write!(out, "{name}: {value}\r\n");
}
