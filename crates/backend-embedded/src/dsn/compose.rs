//! Composes the message of a report (RFC 3464, RFC 6522).

use std::fmt::Write;

use mail_builder::MessageBuilder;
use mail_builder::headers::address::Address;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::date::Date;
use mail_builder::headers::message_id::MessageId as MessageIdHeader;
use mail_builder::headers::raw::Raw;
use mail_builder::mime::{BodyPart, MimePart};

use super::status::delivery_status;
use super::{Action, MAILER_DAEMON, Report, Returned};
use crate::replies::one_line;

/// The report could not be composed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the report could not be composed")]
pub(crate) struct ComposeError;

/// Returns the message of `report`, with CRLF line ends.
///
/// # Errors
/// [`ComposeError`] if the builder fails to write to memory, which is not expected.
pub(crate) fn compose(report: &Report<'_>) -> Result<Vec<u8>, ComposeError> {
    let author = format!("{MAILER_DAEMON}@{}", report.hostname);
    let parts = vec![
        MimePart::new("text/plain", text(report)),
        as_it_is("message/delivery-status", delivery_status(report).into_bytes()),
        returned(&report.returned),
    ];
    // The random identifier was drawn after the returned message was written, so no line of that message is the
    // boundary.
    let boundary = format!("=_report_{}", report.id);
    let kind = ContentType::new("multipart/report")
        .attribute("report-type", "delivery-status")
        .attribute("boundary", boundary);
    MessageBuilder::new()
        .date(Date::new(report.now.as_seconds()))
        .from(Address::new_address(Some("Mail Delivery System"), author.as_str()))
        .to(Address::new_address(None::<&str>, report.sender.wire()))
        .subject(subject(report))
        .message_id(MessageIdHeader::new(format!("{}@{}", report.id, report.hostname)))
        // Prevents automatic replies (RFC 3834 section 5).
        .header("Auto-Submitted", Raw::new("auto-replied"))
        .body(MimePart::new(kind, parts))
        .write_to_vec()
        .map_err(|_| ComposeError)
}

/// Returns a subject with the outcome and the recipients.
fn subject(report: &Report<'_>) -> String {
    let first = report.recipients.first().map_or("no recipient", |outcome| outcome.recipient.shown());
    let recipients = match report.recipients.len() {
        0 | 1 => first.to_owned(),
        2 => format!("{first} and 1 other"),
        count => format!("{first} and {} others", count - 1),
    };
    match report.action {
        Action::Failed => format!("Your message could not be delivered to {recipients}"),
        Action::Delayed => format!("Your message to {recipients} is delayed"),
        Action::Delivered => format!("Your message was delivered to {recipients}"),
        Action::Relayed => format!("Your message to {recipients} was relayed"),
    }
}

/// Returns the part for human readers.
fn text(report: &Report<'_>) -> String {
    let mut out = format!("This is the mail server {}.\n\n", report.hostname);
    out.push_str(match report.action {
        Action::Failed => {
            "Your message could not be delivered to the recipients below.\n\
             No further delivery attempts will be made.\n"
        }
        Action::Delayed => {
            "Your message has not been delivered to the recipients below yet.\n\
             Delivery will be retried. You do not need to do anything.\n"
        }
        Action::Delivered => "Your message was delivered to the mailboxes of the recipients below.\n",
        Action::Relayed => {
            "Your message was relayed to the mail servers of the recipients below.\n\
             Those servers do not confirm final delivery.\n"
        }
    });
    for outcome in &report.recipients {
        // Writing to a string cannot fail.
        let _ = write!(out, "\n<{}>", outcome.recipient.shown());
        if let Some(reply) = &outcome.reply {
            let reply = one_line(&reply.to_string());
            let _ = match outcome.relay.filter(|_| outcome.said_before.is_none()) {
                Some(relay) => write!(out, "\n    {relay} said: {reply}"),
                None => write!(out, "\n    {reply}"),
            };
        }
        if let Some(until) = outcome.will_retry_until {
            let _ = write!(out, "\n    Delivery will be retried until {}.", Date::new(until.as_seconds()).to_rfc822());
        }
        out.push('\n');
    }
    let _ = writeln!(out, "\nThe queue id of your message is {}.", report.queue_id);
    out
}

fn returned<'x>(returned: &Returned<'x>) -> MimePart<'x> {
    match returned {
        Returned::Headers(headers) => as_it_is("text/rfc822-headers", headers.to_vec()),
        Returned::Message(message) => as_it_is("message/rfc822", message.to_vec()),
    }
}

/// Returns a part that must not be encoded (RFC 2046 section 5.2.1).
fn as_it_is(kind: &'static str, bytes: Vec<u8>) -> MimePart<'static> {
    let encoding = if bytes.is_ascii() { "7bit" } else { "8bit" };
    MimePart::new(kind, BodyPart::Binary(bytes.into())).transfer_encoding(encoding)
}

#[cfg(test)]
mod tests {
    use mailapi_model::{EnhancedCode, QueueId, Reply, Timestamp};

    use super::super::RecipientOutcome;
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_failure_is_described_to_people_and_programs() {
        let (ann, bob) = ("ann@here.example".parse().unwrap(), "bob@there.example".parse().unwrap());
        let report = Report {
            hostname: "mx.here.example",
            queue_id: &QueueId("Q1".to_owned()),
            arrived_at: at("2026-11-20T10:15:30Z"),
            envelope_id: Some("QQ314159"),
            sender: &ann,
            action: Action::Failed,
            recipients: vec![RecipientOutcome {
                recipient: &bob,
                original: Some("rfc822;Bob@there.example"),
                reply: Some(Reply::new(550, EnhancedCode::new(5, 1, 1), "no\nsuch üser")),
                relay: Some("mx.there.example[192.0.2.1]:25"),
                said_before: None,
                will_retry_until: None,
            }],
            returned: Returned::Headers(b"Subject: Gr\xc3\xbc\xc3\x9fe\r\nX: y\r\n"),
            id: "67e55044-10b1-426f-9247-bb680e5fe0c8".parse().unwrap(),
            now: at("2026-11-20T10:16:00Z"),
        };
        let composed = String::from_utf8(compose(&report).unwrap()).unwrap();
        assert!(composed.ends_with("\r\n"), "a message ends with its last line");
        assert_eq!(composed.replace("\r\n", "\n"), include_str!("failed.eml").replace("\r\n", "\n"));
    }
}
