//! Claims due recipients for one delivery agent at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use mailapi_model::{EmailAddress, QueueId, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, Row, params};

use super::columns::{read_notify, read_reply, read_ret, read_through};
use super::hold::HELD;
use super::{QueueKey, QueuedMessage, QueuedRecipient, Task};
use crate::MessageStore;
use crate::message_store::{Layout, MessageStoreError, content, damaged};
use crate::submitter::Submitter;

impl MessageStore {
    /// Claims at most `max` due recipients, those that are due longest first. A claim is exclusive until the
    /// result is recorded or `lease` has passed.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn claim_due(&self, max: usize, lease: Duration) -> Result<Vec<QueuedMessage>, MessageStoreError> {
        let now = self.clock().now();
        self.write(move |connection, _| claim(connection, now, max, now.plus(lease))).await
    }

    /// Returns when the next recipient becomes due; `None` if the queue is empty or on hold. A time in the past
    /// means now.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn next_due_at(&self) -> Result<Option<Timestamp>, StoreError> {
        // The few active leases are read one by one; all other rows come from the index.
        let sql = "SELECT MIN(due) FROM (
                SELECT MIN(next_attempt_at) AS due FROM drop_queue_recipients WHERE leased_until = 0
                UNION ALL
                SELECT MIN(MAX(next_attempt_at, leased_until)) FROM drop_queue_recipients WHERE leased_until > 0
            )";
        let due: Option<i64> = self
            .read(|connection| Ok::<_, StoreError>(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?))
            .await?;
        Ok(due.filter(|due| *due < HELD).map(Timestamp::from_millis))
    }

    /// Makes recipients due whose next attempt is later than `latest`, which is after every possible wait: the clock was
    /// set back since the attempt was planned. Those on hold stay so.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn correct_waits(&self, latest: Timestamp) -> Result<(), StoreError> {
        let sql =
            "SELECT EXISTS (SELECT 1 FROM drop_queue_recipients WHERE next_attempt_at > ?1 AND next_attempt_at < ?2)";
        let is_wrong: bool = self
            .read_one(|connection| {
                let values = params![latest.as_millis(), HELD];
                Ok::<_, StoreError>(connection.prepare_cached(sql)?.query_row(values, |row| row.get(0))?)
            })
            .await?;
        if !is_wrong {
            return Ok(());
        }
        let sql = "UPDATE drop_queue_recipients SET next_attempt_at = ?3
            WHERE next_attempt_at > ?1 AND next_attempt_at < ?2";
        let now = self.clock().now();
        let corrected = self
            .write(move |connection, touched| {
                let values = params![latest.as_millis(), HELD, now.as_millis()];
                touched.queue();
                Ok::<_, StoreError>(connection.prepare_cached(sql)?.execute(values)?)
            })
            .await?;
        tracing::warn!(
            recipients = corrected,
            "the clock was set back; recipients that waited for later times are due now"
        );
        Ok(())
    }

    /// Ends all leases. Called when the only delivery agent starts, because its predecessor may have crashed.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn end_leases(&self) -> Result<(), StoreError> {
        let sql = "UPDATE drop_queue_recipients SET leased_until = 0 WHERE leased_until > 0";
        self.write(move |connection, touched| {
            connection.prepare_cached(sql)?.execute([])?;
            touched.queue();
            Ok(())
        })
        .await
    }

    /// Waits until the queue may have changed, by this process or another one. It may return spuriously, but
    /// misses no change.
    pub async fn queue_changed(&self) {
        self.raised(|changes| &changes.queue).await;
    }
}

fn claim(
    connection: &Connection,
    now: Timestamp,
    max: usize,
    until: Timestamp,
) -> Result<Vec<QueuedMessage>, MessageStoreError> {
    let mut messages: BTreeMap<i64, QueuedMessage> = BTreeMap::new();
    for (key, recipient) in due(connection, now, max)? {
        let sql = "UPDATE drop_queue_recipients SET leased_until = ?3 WHERE queue = ?1 AND position = ?2";
        connection.prepare_cached(sql)?.execute(params![key, recipient.position, until.as_millis()])?;
        // A message with several due recipients is read once.
        if let Some(message) = messages.get_mut(&key) {
            message.recipients.push(recipient);
        } else {
            let mut message = read_message(connection, key)?;
            message.recipients.push(recipient);
            messages.insert(key, message);
        }
    }
    Ok(messages.into_values().collect())
}

fn due(connection: &Connection, now: Timestamp, max: usize) -> Result<Vec<(i64, QueuedRecipient)>, StoreError> {
    let sql = "SELECT queue, position, recipient, delivered, notify, orcpt, attempts, delay_notified, last_code,
            last_enhanced, last_text, forwarded_by, failure_notified, through
        FROM drop_queue_recipients WHERE next_attempt_at <= ?1 AND leased_until <= ?1
        ORDER BY next_attempt_at, queue, position LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let rows =
        statement.query_and_then(params![now.as_millis(), max], |row| Ok((row.get(0)?, read_recipient(row)?)))?;
    rows.collect()
}

fn read_recipient(row: &Row<'_>) -> Result<QueuedRecipient, StoreError> {
    let address: String = row.get(2)?;
    let notify: Option<String> = row.get(4)?;
    let forwarded_by: Option<String> = row.get(11)?;
    let alias = |text: String| EmailAddress::as_given(&text).map_err(|_| damaged("an address"));
    Ok(QueuedRecipient {
        forwarded_by: forwarded_by.map(alias).transpose()?,
        position: row.get(1)?,
        address: EmailAddress::as_given(&address).map_err(|_| damaged("an address"))?,
        task: if row.get(3)? { Task::NotifySuccess } else { Task::Deliver },
        notify: read_notify(notify.as_deref()),
        orcpt: row.get(5)?,
        attempts: row.get(6)?,
        delay_notified: row.get(7)?,
        last_reply: read_reply(row, 8)?,
        failure_notified: row.get(12)?,
        through: read_through(row.get::<_, Option<String>>(13)?.as_deref())?,
    })
}

fn read_message(connection: &Connection, key: i64) -> Result<QueuedMessage, MessageStoreError> {
    let sql =
        "SELECT queue_id, message_id, sender, message_uuid, accepted_at, expires_at, ret, envid, submitter, author,
            from_outside
        FROM drop_queue WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![key])?;
    let row = rows.next()?.ok_or_else(|| damaged("the queue"))?;
    let layout = content::layout(connection, row.get(1)?)?;
    Ok(message(row, QueueKey(key), layout)?)
}

fn message(row: &Row<'_>, key: QueueKey, layout: Layout) -> Result<QueuedMessage, StoreError> {
    let text = |column: usize| -> Result<Option<String>, StoreError> { Ok(row.get(column)?) };
    Ok(QueuedMessage {
        key,
        queue_id: QueueId(row.get(0)?),
        layout,
        sender: text(2)?
            .map(|sender| EmailAddress::as_given(&sender).map_err(|_| damaged("an address")))
            .transpose()?,
        message_id: text(3)?.map(|id| id.parse().map_err(|_| damaged("an identifier"))).transpose()?,
        accepted_at: Timestamp::from_millis(row.get(4)?),
        expires_at: Timestamp::from_millis(row.get(5)?),
        ret: read_ret(text(6)?.as_deref()),
        envid: text(7)?,
        submitter: Submitter::read(row, 8)?,
        from_outside: row.get(10)?,
        recipients: Vec::new(),
    })
}
