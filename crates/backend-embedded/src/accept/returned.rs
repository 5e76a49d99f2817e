//! Notices of failure that come back from other servers for messages that came through the API (RFC 3464).
//!
//! Anybody can write such a notice, so it counts only when it says what could be true: it came with the null
//! reverse-path to the mailbox that the message was sent from, and names a recipient for whom the message did leave
//! this server. Each of them can come back once; the members of an alias, as often as somebody says so.

use std::io;

use mailapi_backend::mime::{Digest, Header, ReturnedAction, ReturnedReport, returned_mail_in};
use mailapi_model::{
    DeliveryEvent, EmailAddress, EnhancedCode, Evidence, MessageId, Octets, Outcome, QueueId, Timestamp,
};
use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, params};

use crate::feed;
use crate::maildrop::Touched;
use crate::replies::one_line;

/// Characters of what the other server said that are kept.
const MAX_RESPONSE: usize = 1_000;

/// Stands between the addresses of [`Left`] in their column; no address holds it.
const SEPARATOR: char = '\n';

/// The recipients for whom a message has left, or is about to.
struct Left {
    queue_id: QueueId,
    accepted_at: Timestamp,
    recipients: Vec<String>,
}

/// Whether a header block is that of a delivery status notification (RFC 6522 section 3).
fn is_notification(header: &[u8]) -> bool {
    let Some(kind) = Header::of(header).parameters("Content-Type") else { return false };
    let is_of = |name: &str, value: &str| {
        kind.parameters.iter().any(|(known, is)| known.eq_ignore_ascii_case(name) && is.eq_ignore_ascii_case(value))
    };
    kind.value.eq_ignore_ascii_case("multipart/report") && is_of("report-type", "delivery-status")
}

/// The failures that a message tells of messages of ours, when it is a notification. May block.
pub(super) fn failures(message: &Octets, digest: &Digest) -> io::Result<Vec<ReturnedReport>> {
    let header = digest.header();
    let header = message.slice(0..usize::try_from(header.length).unwrap_or(usize::MAX)).to_bytes()?;
    if !is_notification(&header) {
        return Ok(Vec::new());
    }
    let mut reports = returned_mail_in(message, digest)?;
    reports.retain(|report| report.action == ReturnedAction::Failed && report.message_id.is_some());
    Ok(reports)
}

/// The recipients as a column of the memory of what was taken over.
pub(super) fn to_column<'a>(recipients: impl Iterator<Item = &'a EmailAddress>) -> String {
    recipients.map(EmailAddress::as_str).collect::<Vec<_>>().join(&SEPARATOR.to_string())
}

/// An event for each failure that may be believed in a mailbox.
pub(super) fn record(
    connection: &Connection,
    mailbox: &EmailAddress,
    failures: &[ReturnedReport],
    now: Timestamp,
    touched: &mut Touched,
) -> Result<(), StoreError> {
    for failure in failures {
        let Some(id) = failure.message_id else { continue };
        let Some(mut left) = left(connection, id, mailbox)? else { continue };
        let Some(place) = left.recipients.iter().position(|known| known == failure.recipient.as_str()) else {
            continue;
        };
        // A notice about a member of an alias leaves open what becomes of the alias itself.
        if failure.final_recipient.is_none() {
            left.recipients.remove(place);
            let sql = "UPDATE drop_accepted SET left_for = ?2 WHERE message_uuid = ?1";
            let rest = left.recipients.join(&SEPARATOR.to_string());
            connection.prepare_cached(sql)?.execute(params![id.to_string(), rest])?;
        }
        feed::append(connection, &event(id, mailbox, failure, &left, now), touched)?;
    }
    Ok(())
}

/// Those of a message that was sent from this mailbox.
fn left(connection: &Connection, id: MessageId, mailbox: &EmailAddress) -> Result<Option<Left>, StoreError> {
    let sql = "SELECT queue_id, accepted_at, left_for FROM drop_accepted WHERE message_uuid = ?1 AND sender = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| {
        let recipients: String = row.get(2)?;
        Ok(Left {
            queue_id: QueueId(row.get(0)?),
            accepted_at: Timestamp::from_millis(row.get(1)?),
            recipients: recipients.split_terminator(SEPARATOR).map(str::to_owned).collect(),
        })
    };
    Ok(statement.query_row(params![id.to_string(), mailbox.as_str()], read).optional()?)
}

fn event(
    id: MessageId,
    mailbox: &EmailAddress,
    failure: &ReturnedReport,
    left: &Left,
    now: Timestamp,
) -> DeliveryEvent {
    let said: String = one_line(&failure.diagnostic).chars().take(MAX_RESPONSE).collect();
    let response = if said.is_empty() { "returned by another server".to_owned() } else { said };
    DeliveryEvent {
        at: now,
        message_id: Some(id),
        queue_id: left.queue_id.clone(),
        sender: Some(mailbox.clone()),
        recipient: failure.recipient.clone(),
        final_recipient: failure.final_recipient.clone(),
        outcome: Outcome::Bounced,
        evidence: Evidence::ReturnedMail,
        dsn: Some(failure.status.unwrap_or(EnhancedCode::new(5, 0, 0))),
        response,
        relay: None,
        delay: now.since(left.accepted_at),
    }
}
