//! Lists the queue for its operator.

use mailapi_backend::{QueueEntry, QueueFilter, QueuedFor};
use mailapi_model::{EmailAddress, Listed, Page, QueueId, QueueState, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::read_reply;
use super::hold::HELD;
use crate::message_store::damaged;

/// State of the recipient `r`. A claim counts until its result is recorded, even if the lease has ended.
macro_rules! state {
    () => {
        "CASE WHEN r.delivered THEN 'sent' WHEN r.leased_until > 0 THEN 'active'
            WHEN r.next_attempt_at = 253402300799999 THEN 'held' WHEN r.attempts > 0 THEN 'deferred' ELSE 'queued' END"
    };
}

/// Condition of a filter on the message `q`. One recipient must match all parts. Domains are stored as A-labels.
macro_rules! is_match {
    () => {
        concat!(
            "EXISTS (SELECT 1 FROM drop_queue_recipients AS r WHERE r.queue = q.id
                AND (?1 IS NULL OR substr(q.sender, -length(?1)) = ?1 OR substr(r.recipient, -length(?1)) = ?1)
                AND (?2 IS NULL OR lower(r.recipient) = ?2)
                AND (?3 IS NULL OR ?3 = ",
            state!(),
            "))"
        )
    };
}

/// The columns of an entry.
macro_rules! entry {
    () => {
        "SELECT q.id, q.queue_id, q.message_uuid, q.sender, q.accepted_at, q.expires_at,
            (SELECT m.size - m.return_path_len FROM drop_messages AS m WHERE m.id = q.message_id),
            (SELECT count(*) FROM drop_queue_recipients AS r WHERE r.queue = q.id)
        FROM drop_queue AS q "
    };
}

/// Returns a page of the matching messages, oldest first.
pub(super) fn list(
    connection: &Connection,
    filter: &QueueFilter,
    page: Page,
) -> Result<Listed<QueueEntry>, StoreError> {
    let domain = filter.domain.as_ref().map(|domain| format!("@{}", domain.as_str()));
    let recipient = filter.recipient.as_ref().map(EmailAddress::as_str);
    let state = filter.state.map(QueueState::as_str);
    let (limit, offset) = (page.limit(), page.offset());
    if *filter == QueueFilter::default() {
        // Without conditions, so that a page does not read every recipient of the queue.
        let total = connection.prepare_cached("SELECT count(*) FROM drop_queue")?.query_row([], |row| row.get(0))?;
        let sql = concat!(entry!(), "ORDER BY q.id LIMIT ?1 OFFSET ?2");
        let rows = read_entries(connection, sql, params![limit, offset])?;
        return Ok(Listed { total, items: with_recipients(connection, rows, recipient)? });
    }
    let sql = concat!("SELECT count(*) FROM drop_queue AS q WHERE ", is_match!());
    let total = connection.prepare_cached(sql)?.query_row(params![domain, recipient, state], |row| row.get(0))?;
    let sql = concat!(entry!(), "WHERE ", is_match!(), " ORDER BY q.id LIMIT ?4 OFFSET ?5");
    let rows = read_entries(connection, sql, params![domain, recipient, state, limit, offset])?;
    Ok(Listed { total, items: with_recipients(connection, rows, recipient)? })
}

/// Returns one message; `None` if the queue does not contain it.
pub(super) fn get(connection: &Connection, id: &QueueId) -> Result<Option<QueueEntry>, StoreError> {
    let rows = read_entries(connection, concat!(entry!(), "WHERE q.queue_id = ?1"), params![id.0])?;
    let Some((key, entry)) = rows.into_iter().next() else { return Ok(None) };
    let recipients = recipients(connection, key, QueueEntry::SHOWN_RECIPIENTS, None)?;
    Ok(Some(QueueEntry { recipients, ..entry }))
}

/// Returns the number of a message.
pub(super) fn key(connection: &Connection, id: &QueueId) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT id FROM drop_queue WHERE queue_id = ?1";
    Ok(connection.prepare_cached(sql)?.query_row(params![id.0], |row| row.get(0)).optional()?)
}

fn read_entries(
    connection: &Connection,
    sql: &str,
    values: impl rusqlite::Params,
) -> Result<Vec<(i64, QueueEntry)>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_and_then(values, |row| Ok((row.get(0)?, read_entry(row)?)))?;
    rows.collect()
}

fn read_entry(row: &Row<'_>) -> Result<QueueEntry, StoreError> {
    let (message_id, sender): (Option<String>, Option<String>) = (row.get(2)?, row.get(3)?);
    Ok(QueueEntry {
        queue_id: QueueId(row.get(1)?),
        message_id: message_id.map(|id| id.parse().map_err(|_| damaged("an identifier"))).transpose()?,
        sender: sender.unwrap_or_default(),
        size: row.get(6)?,
        queued_at: Timestamp::from_millis(row.get(4)?),
        expires_at: Some(Timestamp::from_millis(row.get(5)?)),
        recipients: Vec::new(),
        recipient_count: row.get(7)?,
    })
}

fn with_recipients(
    connection: &Connection,
    rows: Vec<(i64, QueueEntry)>,
    wanted: Option<&str>,
) -> Result<Vec<QueueEntry>, StoreError> {
    let complete = |(key, entry)| {
        let recipients = recipients(connection, key, QueueEntry::LISTED_RECIPIENTS, wanted)?;
        Ok(QueueEntry { recipients, ..entry })
    };
    rows.into_iter().map(complete).collect()
}

/// Returns the recipients of a message, at most `max`. A wanted one is the first.
fn recipients(
    connection: &Connection,
    key: i64,
    max: usize,
    wanted: Option<&str>,
) -> Result<Vec<QueuedFor>, StoreError> {
    let sql = concat!(
        "SELECT r.recipient, ",
        state!(),
        ", r.attempts, r.next_attempt_at, r.last_code, r.last_enhanced, r.last_text
        FROM drop_queue_recipients AS r WHERE r.queue = ?1
        ORDER BY lower(r.recipient) IS NOT ?2, r.position LIMIT ?3"
    );
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_and_then(params![key, wanted, max], read_recipient)?;
    rows.collect()
}

fn read_recipient(row: &Row<'_>) -> Result<QueuedFor, StoreError> {
    let state: String = row.get(1)?;
    let state = state.parse().map_err(|_| damaged("the queue"))?;
    let next_attempt_at: i64 = row.get(3)?;
    let is_scheduled = state != QueueState::Active && next_attempt_at < HELD;
    // Without a server's reply, only the reason has been stored.
    let last_reply = read_reply(row, 4)?.map(|reply| reply.to_string()).or(row.get(6)?);
    Ok(QueuedFor {
        email: row.get(0)?,
        state,
        attempts: Some(row.get(2)?),
        next_attempt_at: is_scheduled.then_some(Timestamp::from_millis(next_attempt_at)),
        last_reply: last_reply.map(|reply| reply.chars().take(QueueEntry::REPLY_CHARACTERS).collect()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_names_the_time_of_a_hold() {
        assert!(state!().contains(&HELD.to_string()));
    }
}
