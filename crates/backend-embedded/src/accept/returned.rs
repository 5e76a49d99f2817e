//! Bounces from other servers for messages that came through the API (RFC 3464).
//!
//! Anyone can forge a bounce, so it counts only if it is plausible. It must come from outside, with the null
//! reverse-path, to the return address of the message (`return_path`). It must also name a recipient whose
//! server accepted the message. The queue has that information: the message has not left for recipients that
//! are still queued. Recipients that the queue abandons are removed in the transaction that records the
//! failure. Each recipient can bounce once; the members of an alias, any number of times.

use std::collections::HashMap;
use std::io;

use mailapi_backend::mime::{Header, MessageStructure, ReturnedAction, ReturnedReport, returned_mail_in};
use mailapi_model::{
    Blob, DeliveryEvent, EmailAddress, EnhancedCode, Evidence, MessageId, Outcome, QueueId, Timestamp,
};
use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Recipient;
use crate::feed;
use crate::message_store::{Touched, damaged};
use crate::replies::one_line;

/// Maximum length in characters of the stored diagnostic text of the other server.
const MAX_RESPONSE: usize = 1_000;

/// Separator of the addresses in the column `left_for`; no address contains it.
const SEPARATOR: &str = "\n";

/// A message that was accepted from the API.
struct Sent {
    id: MessageId,
    queue_id: QueueId,
    accepted_at: Timestamp,
    /// Remote recipients that have neither failed nor bounced.
    left_for: Vec<String>,
    /// Recipients that are still in the queue, with the end of each claim.
    waiting: HashMap<String, Timestamp>,
}

impl Sent {
    /// Returns the recipient's position in `left_for` if another server accepted the message for it.
    fn place_of(&self, recipient: &EmailAddress) -> Option<usize> {
        let waits = self.waiting.contains_key(recipient.as_str());
        self.left_for.iter().position(|known| known == recipient.as_str()).filter(|_| !waits)
    }

    /// Returns whether a delivery attempt is in progress: another server may already have accepted the
    /// message.
    fn is_being_submitted(&self, recipient: &EmailAddress, now: Timestamp) -> bool {
        self.waiting.get(recipient.as_str()).is_some_and(|leased_until| *leased_until > now)
    }
}

/// Returns whether a header block belongs to a delivery status notification (RFC 6522 section 3).
fn is_notification(header: &[u8]) -> bool {
    let Some(kind) = Header::of(header).parameters("Content-Type") else { return false };
    let is_of = |name: &str, value: &str| {
        kind.parameters.iter().any(|(known, is)| known.eq_ignore_ascii_case(name) && is.eq_ignore_ascii_case(value))
    };
    kind.value.eq_ignore_ascii_case("multipart/report") && is_of("report-type", "delivery-status")
}

/// Returns the failures that a message reports, if it is a notification. May block.
pub(super) fn failures(message: &Blob, structure: &MessageStructure) -> io::Result<Vec<ReturnedReport>> {
    let header = structure.header();
    let header = message.slice(0..usize::try_from(header.length).unwrap_or(usize::MAX)).to_bytes()?;
    if !is_notification(&header) {
        return Ok(Vec::new());
    }
    let mut reports = returned_mail_in(message, structure)?;
    reports.retain(|report| report.action == ReturnedAction::Failed);
    Ok(reports)
}

/// Formats recipients for the column `left_for`.
pub(super) fn to_column<'a>(recipients: impl Iterator<Item = &'a EmailAddress>) -> String {
    recipients.map(EmailAddress::as_str).collect::<Vec<_>>().join(SEPARATOR)
}

/// Parses the column `left_for`.
fn from_column(column: &str) -> Vec<String> {
    column.split_terminator(SEPARATOR).map(str::to_owned).collect()
}

/// Removes the recipients that the queue has abandoned: the message never left for them. Must run in the
/// transaction in which the queue records it.
pub(crate) fn give_up(connection: &Connection, id: MessageId, given_up: &[&EmailAddress]) -> Result<(), StoreError> {
    if given_up.is_empty() {
        return Ok(());
    }
    let sql = "SELECT left_for FROM drop_accepted WHERE message_uuid = ?1";
    let known = connection.prepare_cached(sql)?.query_row(params![id.to_string()], |row| row.get::<_, String>(0));
    let Some(known) = known.optional()? else { return Ok(()) };
    let mut left_for = from_column(&known);
    left_for.retain(|known| !given_up.iter().any(|recipient| recipient.as_str() == known));
    write(connection, id, &left_for)
}

/// Returns whether a failure concerns a recipient whose delivery attempt is in progress. It can be verified
/// only when the queue has recorded the result.
pub(super) fn come_early(
    connection: &Connection,
    at: &Recipient,
    failures: &[ReturnedReport],
    now: Timestamp,
) -> Result<bool, StoreError> {
    let Some(sent) = sent(connection, at)?.filter(|_| !failures.is_empty()) else { return Ok(false) };
    Ok(failures.iter().any(|failure| sent.is_being_submitted(&failure.recipient, now)))
}

/// Appends an event for each plausible failure.
pub(super) fn record(
    connection: &Connection,
    at: &Recipient,
    failures: &[ReturnedReport],
    now: Timestamp,
    touched: &mut Touched,
) -> Result<(), StoreError> {
    let Some(mut sent) = sent(connection, at)? else { return Ok(()) };
    let before = sent.left_for.len();
    for failure in failures {
        let Some(place) = sent.place_of(&failure.recipient) else { continue };
        // A bounce of one member does not decide the outcome for the alias itself.
        if failure.final_recipient.is_none() {
            sent.left_for.remove(place);
        }
        feed::append(connection, &event(&at.address, failure, &sent, now), None, touched)?;
    }
    if sent.left_for.len() < before {
        write(connection, sent.id, &sent.left_for)?;
    }
    Ok(())
}

/// Returns the sender of a message.
pub(crate) fn sender_of(connection: &Connection, id: MessageId) -> Result<Option<EmailAddress>, StoreError> {
    let sql = "SELECT sender FROM drop_accepted WHERE message_uuid = ?1";
    let sender: Option<Option<String>> =
        connection.prepare_cached(sql)?.query_row(params![id.to_string()], |row| row.get(0)).optional()?;
    Ok(sender.flatten().and_then(|sender| sender.parse().ok()))
}

/// Returns the message whose return address led to this mailbox.
fn sent(connection: &Connection, at: &Recipient) -> Result<Option<Sent>, StoreError> {
    let Some(id) = at.returned else { return Ok(None) };
    let sql = "SELECT queue_id, accepted_at, left_for FROM drop_accepted WHERE message_uuid = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &Row<'_>| {
        Ok(Sent {
            id,
            queue_id: QueueId(row.get(0)?),
            accepted_at: Timestamp::from_millis(row.get(1)?),
            left_for: from_column(row.get_ref(2)?.as_str()?),
            waiting: HashMap::new(),
        })
    };
    let Some(sent) = statement.query_row(params![id.to_string()], read).optional()? else {
        return Ok(None);
    };
    let sql = "SELECT recipient, leased_until FROM drop_queue_recipients
        WHERE queue = (SELECT id FROM drop_queue WHERE queue_id = ?1)";
    let mut statement = connection.prepare_cached(sql)?;
    let waiting = statement.query_and_then(params![sent.queue_id.0], |row| -> Result<_, StoreError> {
        // The queue stores recipients as given; the comparison needs the canonical form.
        let recipient: EmailAddress = row.get::<_, String>(0)?.parse().map_err(|_| damaged("an address"))?;
        Ok((recipient.as_str().to_owned(), Timestamp::from_millis(row.get(1)?)))
    })?;
    Ok(Some(Sent { waiting: waiting.collect::<Result<_, _>>()?, ..sent }))
}

fn write(connection: &Connection, id: MessageId, left_for: &[String]) -> Result<(), StoreError> {
    let sql = "UPDATE drop_accepted SET left_for = ?2 WHERE message_uuid = ?1";
    connection.prepare_cached(sql)?.execute(params![id.to_string(), left_for.join(SEPARATOR)])?;
    Ok(())
}

fn event(mailbox: &EmailAddress, failure: &ReturnedReport, message: &Sent, now: Timestamp) -> DeliveryEvent {
    let said: String = one_line(&failure.diagnostic).chars().take(MAX_RESPONSE).collect();
    let response = if said.is_empty() { "returned by another server".to_owned() } else { said };
    DeliveryEvent {
        at: now,
        message_id: Some(message.id),
        queue_id: message.queue_id.clone(),
        sender: Some(mailbox.clone()),
        recipient: failure.recipient.clone(),
        final_recipient: failure.final_recipient.clone(),
        outcome: Outcome::Bounced,
        evidence: Evidence::ReturnedMail,
        dsn: Some(failure.status.unwrap_or(EnhancedCode::new(5, 0, 0))),
        response,
        relay: None,
        delay: now.since(message.accepted_at),
        next_attempt_at: None,
    }
}
