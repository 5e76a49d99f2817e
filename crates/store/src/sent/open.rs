//! Reads messages without a final status, for monitoring. Every query reads a bounded number of rows by an index.

use mailapi_model::{EmailAddress, MessageId, MessageStatus, QueueId, Timestamp};

use super::Sent;
use crate::StoreError;
use crate::db::{Row, Stmt, count, exactly_one};

/// Number and age of the messages with a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenMessages {
    /// Their number, up to the limit.
    pub count: u64,
    /// When the oldest one was stored.
    pub oldest: Option<Timestamp>,
}

/// A recipient without a final status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRecipient {
    /// The message.
    pub message_id: MessageId,
    /// The mail server's queue id.
    pub queue_id: Option<QueueId>,
    /// The name of the data directory of the submitting process, if recorded.
    pub node: Option<String>,
    /// The recipient.
    pub recipient: EmailAddress,
}

impl Sent<'_> {
    /// Returns the number and age of the messages with this status; counts at most `limit`.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn count_open(&self, status: MessageStatus, limit: usize) -> Result<OpenMessages, StoreError> {
        let oldest = count_open(status, limit);
        let mut row = exactly_one(exactly_one(self.0.scan(vec![oldest]).await?)?)?;
        Ok(OpenMessages { count: row.unsigned()?, oldest: row.time_or_null()? })
    }

    /// Returns the recipients without a final status of messages that were submitted before `before`: those of the
    /// `limit` oldest such messages.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn open_recipients(&self, before: Timestamp, limit: usize) -> Result<Vec<OpenRecipient>, StoreError> {
        let rows = exactly_one(self.0.scan(vec![open_recipients(before, limit)]).await?)?;
        rows.into_iter().map(read_recipient).collect()
    }
}

pub(crate) fn count_open(status: MessageStatus, limit: usize) -> Stmt {
    Stmt::new(
        "SELECT COUNT(*), MIN(created_at) FROM \
         (SELECT created_at FROM sent_messages WHERE status = $1 ORDER BY created_at LIMIT $2) AS oldest",
    )
    .bind(status)
    .bind(count(limit))
}

pub(crate) fn open_recipients(before: Timestamp, limit: usize) -> Stmt {
    Stmt::new(
        "SELECT message_id, queue_id, node, email FROM \
         (SELECT id, message_id, queue_id, node FROM sent_messages \
         WHERE status = 'submitted' AND submitted_at < $1 ORDER BY created_at LIMIT $2) AS oldest \
         JOIN sent_recipients ON sent_id = oldest.id \
         WHERE sent_recipients.status IN ('submitted', 'deferred')",
    )
    .bind(before)
    .bind(count(limit))
}

fn read_recipient(mut row: Row) -> Result<OpenRecipient, StoreError> {
    Ok(OpenRecipient {
        message_id: row.parsed()?,
        queue_id: row.text_or_null()?.map(QueueId),
        node: row.text_or_null()?,
        recipient: row.parsed()?,
    })
}
