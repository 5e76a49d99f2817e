//! Changes of the queue by its operator, each in one transaction.

use std::collections::HashSet;

use async_trait::async_trait;
use mailapi_backend::{Queue, QueueChange, QueueEntry, QueueError, QueueFilter};
use mailapi_model::{DeliveryEvent, EmailAddress, Evidence, Listed, MessageId, Outcome, Page, QueueId, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, params};

use super::hold::HELD;
use super::list;
use crate::accept::{LeftFor, give_up};
use crate::message_store::{Touched, damaged};
use crate::submitter::Submitter;
use crate::{MessageStore, feed};

/// The time of an attempt that the operator starts, with the queue as `?1` and now as `?2`: that of the message's
/// acceptance. No scheduled attempt but the first has it, so the attempt is known not to count.
macro_rules! at_once {
    () => {
        "MIN(?2, (SELECT accepted_at FROM drop_queue WHERE id = ?1))"
    };
}

#[async_trait]
impl Queue for MessageStore {
    async fn list(&self, filter: &QueueFilter, page: Page) -> Result<Listed<QueueEntry>, QueueError> {
        let filter = filter.clone();
        // A filter reads every recipient of the queue.
        let listed: Result<_, StoreError> = self.scan(move |connection| list::list(connection, &filter, page)).await;
        listed.map_err(unavailable)
    }

    async fn get(&self, id: &QueueId) -> Result<QueueEntry, QueueError> {
        let found: Result<_, StoreError> = self.read(|connection| list::get(connection, id)).await;
        found.map_err(unavailable)?.ok_or(QueueError::NotFound)
    }

    async fn change(&self, id: &QueueId, change: QueueChange) -> Result<(), QueueError> {
        let (id, now) = (id.clone(), self.clock().now());
        let apply = move |connection: &Connection, touched: &mut Touched| -> Result<(), Failed> {
            let queue = list::key(connection, &id)?.ok_or(Failed(QueueError::NotFound))?;
            match change {
                QueueChange::Retry => retry(connection, queue, now)?,
                QueueChange::Hold => hold(connection, queue)?,
                QueueChange::Release => release(connection, queue, now)?,
                QueueChange::Cancel => cancel(connection, queue, now, touched)?,
            }
            // The delivery agent looks for due recipients, and for claims of held ones.
            touched.queue();
            Ok(())
        };
        self.write_freeing(apply).await.map_err(|Failed(error)| error)
    }
}

/// The error of a change. Failures of the database become one.
struct Failed(QueueError);

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self(unavailable(error))
    }
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        StoreError::from(error).into()
    }
}

fn unavailable(error: StoreError) -> QueueError {
    QueueError::Unavailable(error.to_string())
}

fn retry(connection: &Connection, queue: i64, now: Timestamp) -> Result<(), Failed> {
    let sql = "SELECT EXISTS (SELECT 1 FROM drop_queue_recipients WHERE queue = ?1 AND next_attempt_at = ?2)";
    if connection.prepare_cached(sql)?.query_row(params![queue, HELD], |row| row.get(0))? {
        return Err(Failed(QueueError::Held));
    }
    // A claimed recipient is attempted anyway.
    let sql = concat!(
        "UPDATE drop_queue_recipients SET next_attempt_at = ",
        at_once!(),
        " WHERE queue = ?1 AND leased_until = 0 AND next_attempt_at > ?2"
    );
    connection.prepare_cached(sql)?.execute(params![queue, now.as_millis()])?;
    Ok(())
}

fn hold(connection: &Connection, queue: i64) -> Result<(), StoreError> {
    let sql = "UPDATE drop_queue_recipients SET next_attempt_at = ?2 WHERE queue = ?1";
    connection.prepare_cached(sql)?.execute(params![queue, HELD])?;
    Ok(())
}

fn release(connection: &Connection, queue: i64, now: Timestamp) -> Result<(), StoreError> {
    let sql = concat!(
        "UPDATE drop_queue_recipients SET next_attempt_at = ",
        at_once!(),
        " WHERE queue = ?1 AND next_attempt_at = ?3"
    );
    connection.prepare_cached(sql)?.execute(params![queue, now.as_millis(), HELD])?;
    Ok(())
}

/// Removes a message without any claim. An unrecorded claim prevents it even after its lease: the other server may
/// have the message already.
fn cancel(connection: &Connection, queue: i64, now: Timestamp, touched: &mut Touched) -> Result<(), Failed> {
    let sql = "SELECT EXISTS (SELECT 1 FROM drop_queue_recipients WHERE queue = ?1 AND leased_until > 0)";
    if connection.prepare_cached(sql)?.query_row(params![queue], |row| row.get(0))? {
        return Err(Failed(QueueError::Busy));
    }
    let mut bounces = bounces(connection, queue, now)?;
    let ends = ends_of_aliases(&bounces);
    bounces.extend(ends);
    for Bounce { event, submitter, accepted_at, attempts, alias_has_it: _ } in &bounces {
        let (accepted_at, attempts) = (*accepted_at, *attempts);
        let submitted = submitter.as_ref().map(|submitter| feed::Submitted { submitter, accepted_at, attempts });
        feed::append(connection, event, submitted, touched)?;
    }
    if let Some(id) = bounces.first().and_then(|bounce| bounce.event.message_id) {
        // The message never left for these recipients, so later bounces for them are forged.
        let left = |bounce: &Bounce| LeftFor::new(&bounce.event.recipient, bounce.event.final_recipient.as_ref());
        give_up(connection, id, &bounces.iter().map(left).collect::<Vec<_>>())?;
    }
    // With the last recipient, a trigger removes the message.
    connection.prepare_cached("DELETE FROM drop_queue_recipients WHERE queue = ?1")?.execute(params![queue])?;
    touched.chores();
    Ok(())
}

/// Returns the ends of aliases of which no member has the message: each after those of its members.
fn ends_of_aliases(bounces: &[Bounce]) -> Vec<Bounce> {
    let mut named = HashSet::new();
    let of_members = bounces.iter().filter(|bounce| bounce.event.final_recipient.is_some() && !bounce.alias_has_it);
    let last = of_members.filter(|bounce| named.insert(&bounce.event.recipient));
    let end = |bounce: &Bounce| {
        let event = DeliveryEvent { final_recipient: None, ..bounce.event.clone() };
        Bounce { event, ..bounce.clone() }
    };
    last.map(end).collect()
}

/// The end of a recipient of a cancelled message.
#[derive(Clone)]
struct Bounce {
    event: DeliveryEvent,
    submitter: Option<Submitter>,
    accepted_at: Timestamp,
    attempts: u32,
    alias_has_it: bool,
}

/// Returns the end of each recipient that has not got the message.
fn bounces(connection: &Connection, queue: i64, now: Timestamp) -> Result<Vec<Bounce>, StoreError> {
    let sql = "SELECT r.recipient, q.queue_id, q.message_uuid, q.sender, q.accepted_at, q.submitter, q.author,
            r.attempts, r.forwarded_by, r.alias_has_it
        FROM drop_queue_recipients AS r JOIN drop_queue AS q ON q.id = r.queue
        WHERE r.queue = ?1 AND r.delivered = 0 ORDER BY r.position";
    let address = |text: String| EmailAddress::as_given(&text).map_err(|_| damaged("an address"));
    let identifier = |text: String| text.parse::<MessageId>().map_err(|_| damaged("an identifier"));
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_and_then(params![queue], |row| -> Result<Bounce, StoreError> {
        let (message_id, sender): (Option<String>, Option<String>) = (row.get(2)?, row.get(3)?);
        let accepted_at = Timestamp::from_millis(row.get(4)?);
        let alias: Option<String> = row.get(8)?;
        let (tried, alias) = (address(row.get(0)?)?, alias.map(address).transpose()?);
        let event = DeliveryEvent {
            next_attempt_at: None,
            at: now,
            message_id: message_id.map(identifier).transpose()?,
            queue_id: QueueId(row.get(1)?),
            sender: sender.map(address).transpose()?,
            final_recipient: alias.is_some().then(|| tried.clone()),
            recipient: alias.unwrap_or(tried),
            outcome: Outcome::Bounced,
            evidence: Evidence::MailServer,
            dsn: None,
            response: QueueChange::CANCELLED.to_owned(),
            relay: None,
            delay: now.since(accepted_at),
        };
        let (submitter, attempts, alias_has_it) = (Submitter::read(row, 5)?, row.get(7)?, row.get(9)?);
        Ok(Bounce { event, submitter, accepted_at, attempts, alias_has_it })
    })?;
    rows.collect()
}
