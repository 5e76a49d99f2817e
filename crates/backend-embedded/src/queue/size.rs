//! Size and content of the queue, for monitoring.

use mailapi_backend::QueueSize;
use mailapi_model::{EmailAddress, QueueId, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, params};

use crate::message_store::damaged;

/// Counts the `limit` oldest messages of the queue.
pub(crate) fn size(connection: &Connection, limit: usize) -> Result<QueueSize, StoreError> {
    let sql = "SELECT COUNT(*), COALESCE(SUM(is_deferred), 0), MIN(accepted_at) FROM (
            SELECT accepted_at, EXISTS (
                SELECT 1 FROM drop_queue_recipients WHERE queue = drop_queue.id AND attempts > 0) AS is_deferred
            FROM drop_queue ORDER BY id LIMIT ?1)";
    connection.prepare_cached(sql)?.query_one(params![limit], |row| {
        let (all, deferred): (u64, u64) = (row.get(0)?, row.get(1)?);
        let oldest = row.get::<_, Option<i64>>(2)?.map(Timestamp::from_millis);
        Ok(Ok(QueueSize { queued: all - deferred, deferred, oldest }))
    })?
}

/// Returns the recipients of a message that are not delivered, as the sender named them.
pub(crate) fn recipients(connection: &Connection, queue_id: &QueueId) -> Result<Vec<EmailAddress>, StoreError> {
    let sql = "SELECT id FROM drop_queue WHERE queue_id = ?1";
    let queue: Option<i64> =
        connection.prepare_cached(sql)?.query_row(params![queue_id.0], |row| row.get(0)).optional()?;
    let Some(queue) = queue else { return Ok(Vec::new()) };
    let sql = "SELECT COALESCE(forwarded_by, recipient) FROM drop_queue_recipients WHERE queue = ?1 AND delivered = 0";
    let mut statement = connection.prepare_cached(sql)?;
    let addresses = statement.query_and_then(params![queue], |row| {
        let text: String = row.get(0)?;
        EmailAddress::as_given(&text).map_err(|_| damaged("an address"))
    })?;
    addresses.collect()
}
