//! Records delivery attempts: results, events and notices in one transaction.

use mailapi_model::{DeliveryEvent, EmailAddress, Evidence, Outcome, Reply, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, params};

use super::columns::reply_columns;
use super::hold::HELD;
use super::{QueueKey, QueuedMessage, QueuedRecipient};
use crate::accept::{AcceptError, MessageBreadth, Prepared, accept_in_transaction, give_up, may_notify};
use crate::message_store::Touched;
use crate::{MessageStore, feed};

/// Result for one claimed recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipientResult {
    /// Position in the envelope.
    pub position: u32,
    /// Outcome of the attempt.
    pub attempt: Attempt,
    /// Whether the reply of the outcome is another server's; otherwise it is our own.
    pub is_answered: bool,
}

/// A notice to the sender.
#[derive(Debug, Clone)]
pub struct Notice {
    /// The message to deliver.
    pub mail: Prepared,
    /// Whether it reports a delay. The sender gets one such notice per message, regardless of the number of
    /// servers.
    pub of_delay: bool,
    /// The alias that it reports a failed member of. The sender gets one such notice per alias.
    pub of_alias: Option<EmailAddress>,
}

impl Notice {
    /// Returns whether the sender got a notice of this kind before.
    fn is_repeated(&self, connection: &Connection, queue: QueueKey) -> Result<bool, StoreError> {
        match &self.of_alias {
            Some(alias) => failure_is_reported(connection, queue, alias),
            None => Ok(self.of_delay && delay_is_reported(connection, queue)?),
        }
    }
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
            // reported, and which failure of a member.
            let was_reported = delay_is_reported(connection, message.key)?;
            let mut new = Vec::new();
            for notice in &notices {
                if !notice.is_repeated(connection, message.key)? {
                    new.push(notice);
                }
            }
            record_all(connection, &message, &results, now, touched)?;
            if !was_reported && delay_is_reported(connection, message.key)? {
                mark_delay_reported(connection, message.key)?;
            }
            for notice in new {
                if let Some(alias) = &notice.of_alias {
                    mark_failure_reported(connection, message.key, alias)?;
                }
                // The sender of mail from outside may be forged.
                if let Some(sender) = message.sender.as_ref().filter(|_| message.from_outside)
                    && !may_notify(connection, sender, now)?
                {
                    tracing::info!(queue_id = %message.queue_id, "delivery notice discarded: its sender had too many");
                    continue;
                }
                match accept_in_transaction(connection, &notice.mail, &settings, MessageBreadth::Wide, now, touched) {
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

/// Returns whether the sender was notified that a member of the alias failed. A member that is still in the queue has the
/// mark.
fn failure_is_reported(connection: &Connection, queue: QueueKey, alias: &EmailAddress) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM drop_queue_recipients
        WHERE queue = ?1 AND forwarded_by = ?2 AND failure_notified)";
    Ok(connection.prepare_cached(sql)?.query_row(params![queue.0, alias.wire()], |row| row.get(0))?)
}

fn mark_failure_reported(connection: &Connection, queue: QueueKey, alias: &EmailAddress) -> Result<(), StoreError> {
    let sql = "UPDATE drop_queue_recipients SET failure_notified = 1 WHERE queue = ?1 AND forwarded_by = ?2";
    connection.prepare_cached(sql)?.execute(params![queue.0, alias.wire()])?;
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
            given_up.extend(message.recipient_at(result.position).map(QueuedRecipient::left_for));
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
    let is_member = message.recipient_at(result.position).is_some_and(|recipient| recipient.forwarded_by.is_some());
    let alias_has_it = is_member && alias_has_it(connection, message.key, result.position)?;
    let was_there = match &result.attempt {
        Attempt::Deferred { reply, next_attempt_at, delay_notified, .. } => {
            let code = result.is_answered.then_some(reply.code);
            defer(connection, message.key, result.position, (code, reply), *next_attempt_at, *delay_notified)?
        }
        _ => finish(connection, message.key, result.position)?,
    };
    if was_there && let Some(event) = event(message, result, now) {
        feed::append(connection, &event, submitted(message, result), touched)?;
        if event.final_recipient.is_some() {
            let end = end_of_alias(connection, message.key, &event, alias_has_it)?;
            end.map_or(Ok(()), |end| feed::append(connection, &end, submitted(message, result), touched))?;
        }
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
        recipient: recipient.named().clone(),
        final_recipient: recipient.forwarded_by.is_some().then(|| recipient.address.clone()),
        outcome,
        evidence: Evidence::MailServer,
        dsn: reply.enhanced_or_class(),
        // A code is a server's answer. Readers of the feed find it at the beginning of the response.
        response: if result.is_answered { reply.to_string() } else { reply.text.clone() },
        relay: relay.cloned(),
        delay: now.since(message.accepted_at),
        next_attempt_at: match result.attempt {
            Attempt::Deferred { next_attempt_at, .. } => Some(next_attempt_at),
            _ => None,
        },
    })
}

fn alias_has_it(connection: &Connection, queue: QueueKey, position: u32) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM drop_queue_recipients WHERE queue = ?1 AND position = ?2 AND alias_has_it";
    Ok(connection.prepare_cached(sql)?.exists(params![queue.0, position])?)
}

/// Returns the failure of an alias after that of its last open member, if no member has the message. The recipient of
/// `event`, which reports the member, is no longer in the queue.
pub(super) fn end_of_alias(
    connection: &Connection,
    queue: QueueKey,
    event: &DeliveryEvent,
    alias_has_it: bool,
) -> Result<Option<DeliveryEvent>, StoreError> {
    let alias = event.recipient.wire();
    match event.outcome {
        // The first member that has the message marks all others, so that each later one writes nothing more.
        Outcome::Sent if !alias_has_it => {
            let sql = "UPDATE drop_queue_recipients SET alias_has_it = 1
                WHERE queue = ?1 AND forwarded_by = ?2 AND NOT alias_has_it";
            connection.prepare_cached(sql)?.execute(params![queue.0, alias])?;
            Ok(None)
        }
        Outcome::Bounced | Outcome::Expired if !alias_has_it => {
            let sql = "SELECT 1 FROM drop_queue_recipients WHERE queue = ?1 AND forwarded_by = ?2";
            let is_open = connection.prepare_cached(sql)?.exists(params![queue.0, alias])?;
            Ok((!is_open).then(|| DeliveryEvent { final_recipient: None, ..event.clone() }))
        }
        _ => Ok(None),
    }
}

fn defer(
    connection: &Connection,
    queue: QueueKey,
    position: u32,
    (code, reply): (Option<u16>, &Reply),
    next_attempt_at: Timestamp,
    delay_notified: bool,
) -> Result<bool, StoreError> {
    // An attempt that was in progress does not end a hold. One that the operator started is due since the acceptance of
    // the message; it does not lengthen the wait for the next one.
    let sql = "UPDATE drop_queue_recipients SET leased_until = 0,
            attempts = attempts + (attempts = 0
                OR next_attempt_at > (SELECT accepted_at FROM drop_queue WHERE id = queue)),
            next_attempt_at = CASE next_attempt_at WHEN ?8 THEN ?8 ELSE ?3 END,
            delay_notified = MAX(delay_notified, ?4), last_code = ?5, last_enhanced = ?6, last_text = ?7
        WHERE queue = ?1 AND position = ?2";
    let (_, enhanced, text) = reply_columns(reply);
    let values = params![queue.0, position, next_attempt_at.as_millis(), delay_notified, code, enhanced, text, HELD];
    Ok(connection.prepare_cached(sql)?.execute(values)? > 0)
}

fn finish(connection: &Connection, queue: QueueKey, position: u32) -> Result<bool, StoreError> {
    let sql = "DELETE FROM drop_queue_recipients WHERE queue = ?1 AND position = ?2";
    Ok(connection.prepare_cached(sql)?.execute(params![queue.0, position])? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent() -> DeliveryEvent {
        DeliveryEvent {
            at: Timestamp::from_seconds(0),
            message_id: None,
            queue_id: mailapi_model::QueueId("Q1".to_owned()),
            sender: None,
            recipient: "team@here.example".parse().unwrap(),
            final_recipient: None,
            outcome: Outcome::Sent,
            evidence: Evidence::MailServer,
            dsn: None,
            response: String::new(),
            relay: None,
            delay: std::time::Duration::ZERO,
            next_attempt_at: None,
        }
    }

    #[test]
    fn each_member_is_marked_once() {
        let connection = Connection::open_in_memory().unwrap();
        let rows = "CREATE TABLE drop_queue_recipients (queue, forwarded_by, alias_has_it DEFAULT 0);
            INSERT INTO drop_queue_recipients (queue, forwarded_by)
            VALUES (1, 'team@here.example'), (1, 'team@here.example'), (1, 'team@here.example'), (1, NULL)";
        connection.execute_batch(rows).unwrap();
        let before = connection.total_changes();
        for alias_has_it in [false, false, true] {
            end_of_alias(&connection, QueueKey(1), &sent(), alias_has_it).unwrap();
        }
        assert_eq!(connection.total_changes() - before, 3);
    }
}
