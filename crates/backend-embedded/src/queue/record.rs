//! Records delivery attempts: results, events and notices in one transaction.

use mailapi_model::{DeliveryEvent, Evidence, Outcome, Reply, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, params};

use super::columns::reply_columns;
use super::hold::HELD;
use super::{QueueKey, QueuedMessage};
use crate::accept::{AcceptError, Prepared, accept_in_transaction, give_up};
use crate::message_store::Touched;
use crate::{MessageStore, feed};

/// Result for one claimed recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipientResult {
    /// Position in the envelope.
    pub position: u32,
    /// Outcome of the attempt.
    pub attempt: Attempt,
}

/// A notice to the sender.
#[derive(Debug, Clone)]
pub struct Notice {
    /// The message to deliver.
    pub mail: Prepared,
    /// Whether it reports a delay. The sender gets one such notice per message, regardless of the number of
    /// servers.
    pub of_delay: bool,
}

/// Outcome of a delivery attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// The next server accepted the message: finished.
    Delivered {
        /// Its reply.
        reply: Reply,
        /// `host[address]:port`.
        relay: Option<String>,
    },
    /// Temporary failure: to be retried.
    Deferred {
        /// The next server's reply, or our own instead.
        reply: Reply,
        /// `host[address]:port`.
        relay: Option<String>,
        /// Time of the next attempt.
        next_attempt_at: Timestamp,
        /// Whether the sender was notified of the delay, now or before.
        delay_notified: bool,
    },
    /// Permanent failure: finished.
    Bounced {
        /// The next server's reply, or our own instead.
        reply: Reply,
        /// `host[address]:port`.
        relay: Option<String>,
    },
    /// Retries ended because of the message's age: finished.
    Expired {
        /// The last reply, or our own instead.
        reply: Reply,
        /// `host[address]:port`.
        relay: Option<String>,
    },
    /// The success notice of a recorded delivery was sent: finished, without an event.
    Notified,
}

impl Attempt {
    fn parts(&self) -> Option<(Outcome, &Reply, Option<&String>)> {
        match self {
            Self::Delivered { reply, relay } => Some((Outcome::Sent, reply, relay.as_ref())),
            Self::Deferred { reply, relay, .. } => Some((Outcome::Deferred, reply, relay.as_ref())),
            Self::Bounced { reply, relay } => Some((Outcome::Bounced, reply, relay.as_ref())),
            Self::Expired { reply, relay } => Some((Outcome::Expired, reply, relay.as_ref())),
            Self::Notified => None,
        }
    }
}

impl MessageStore {
    /// Records the results of claimed recipients and accepts the notices about them ([`MessageStore::prepare`]),
    /// all in one transaction. A recipient that was finished in the meantime is skipped. An undeliverable
    /// notice is dropped: bounces do not bounce (RFC 5321 section 6.1).
    ///
    /// # Errors
    /// If the database fails; nothing was recorded.
    pub async fn record(
        &self,
        message: QueuedMessage,
        results: Vec<RecipientResult>,
        notices: Vec<Notice>,
    ) -> Result<(), StoreError> {
        let (settings, now) = (self.settings().clone(), self.clock().now());
        self.write(move |connection, touched| {
            // Attempts at other servers run concurrently, so only the transaction can decide which delay is
            // reported.
            let was_reported = delay_is_reported(connection, message.key)?;
            record_all(connection, &message, &results, now, touched)?;
            if !was_reported && delay_is_reported(connection, message.key)? {
                mark_delay_reported(connection, message.key)?;
            }
            for notice in notices.iter().filter(|notice| !(notice.of_delay && was_reported)) {
                match accept_in_transaction(connection, &notice.mail, &settings, now, touched) {
                    Ok(_) => {}
                    Err(AcceptError::Store(error)) => return Err(error),
                    Err(refused) => {
                        tracing::info!(queue_id = %message.queue_id, %refused, "delivery notice refused and discarded");
                    }
                }
            }
            touched.queue();
            Ok(())
        })
        .await
    }
}

/// Returns whether the sender was notified of the message's delay.
fn delay_is_reported(connection: &Connection, queue: QueueKey) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM drop_queue_recipients WHERE queue = ?1 AND delay_notified)";
    Ok(connection.prepare_cached(sql)?.query_row(params![queue.0], |row| row.get(0))?)
}

/// Marks all recipients, since the one with the delay may leave the queue first.
fn mark_delay_reported(connection: &Connection, queue: QueueKey) -> Result<(), StoreError> {
    let sql = "UPDATE drop_queue_recipients SET delay_notified = 1 WHERE queue = ?1";
    connection.prepare_cached(sql)?.execute(params![queue.0])?;
    Ok(())
}

fn record_all(
    connection: &Connection,
    message: &QueuedMessage,
    results: &[RecipientResult],
    now: Timestamp,
    touched: &mut Touched,
) -> Result<(), StoreError> {
    let mut given_up = Vec::new();
    for result in results {
        let was_there = record_one(connection, message, result, now, touched)?;
        if was_there && matches!(result.attempt, Attempt::Bounced { .. } | Attempt::Expired { .. }) {
            given_up.extend(message.recipient_at(result.position).map(|recipient| &recipient.address));
        }
    }
    // The message never left for these recipients, so later bounces for them are forged.
    message.message_id.map_or(Ok(()), |id| give_up(connection, id, &given_up))
}

/// Records one result. Returns whether the recipient was still in the queue.
fn record_one(
    connection: &Connection,
    message: &QueuedMessage,
    result: &RecipientResult,
    now: Timestamp,
    touched: &mut Touched,
) -> Result<bool, StoreError> {
    let was_there = match &result.attempt {
        Attempt::Deferred { reply, next_attempt_at, delay_notified, .. } => {
            defer(connection, message.key, result.position, reply, *next_attempt_at, *delay_notified)?
        }
        _ => finish(connection, message.key, result.position)?,
    };
    if was_there && let Some(event) = event(message, result, now) {
        feed::append(connection, &event, submitted(message, result), touched)?;
    }
    if was_there {
        // The last recipient may have held the last reference to the content, which can then be collected.
        touched.chores();
    }
    Ok(was_there)
}

fn submitted<'a>(message: &'a QueuedMessage, result: &RecipientResult) -> Option<feed::Submitted<'a>> {
    let attempts = message.recipient_at(result.position)?.attempts;
    let submitter = message.submitter.as_ref()?;
    Some(feed::Submitted { submitter, accepted_at: message.accepted_at, attempts })
}

fn event(message: &QueuedMessage, result: &RecipientResult, now: Timestamp) -> Option<DeliveryEvent> {
    let recipient = message.recipient_at(result.position)?;
    let (outcome, reply, relay) = result.attempt.parts()?;
    Some(DeliveryEvent {
        at: now,
        message_id: message.message_id,
        queue_id: message.queue_id.clone(),
        sender: message.sender.clone(),
        recipient: recipient.address.clone(),
        final_recipient: None,
        outcome,
        evidence: Evidence::MailServer,
        dsn: reply.enhanced_or_class(),
        response: reply.to_string(),
        relay: relay.cloned(),
        delay: now.since(message.accepted_at),
        next_attempt_at: match result.attempt {
            Attempt::Deferred { next_attempt_at, .. } => Some(next_attempt_at),
            _ => None,
        },
    })
}

fn defer(
    connection: &Connection,
    queue: QueueKey,
    position: u32,
    reply: &Reply,
    next_attempt_at: Timestamp,
    delay_notified: bool,
) -> Result<bool, StoreError> {
    // An attempt that was in progress does not end a hold.
    let sql = "UPDATE drop_queue_recipients SET attempts = attempts + 1, leased_until = 0,
            next_attempt_at = CASE next_attempt_at WHEN ?8 THEN ?8 ELSE ?3 END,
            delay_notified = MAX(delay_notified, ?4), last_code = ?5, last_enhanced = ?6, last_text = ?7
        WHERE queue = ?1 AND position = ?2";
    let (code, enhanced, text) = reply_columns(reply);
    let values = params![queue.0, position, next_attempt_at.as_millis(), delay_notified, code, enhanced, text, HELD];
    Ok(connection.prepare_cached(sql)?.execute(values)? > 0)
}

fn finish(connection: &Connection, queue: QueueKey, position: u32) -> Result<bool, StoreError> {
    let sql = "DELETE FROM drop_queue_recipients WHERE queue = ?1 AND position = ?2";
    Ok(connection.prepare_cached(sql)?.execute(params![queue.0, position])? > 0)
}
