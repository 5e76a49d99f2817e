//! Inserts messages into the queue.

use mailapi_model::{EmailAddress, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, params};

use super::Task;
use crate::accept::{Prepared, Recipient};
use crate::message_store::ContentId;
use crate::submitter::Submitter;

/// Inserts a message for the given recipients, due at once. Returns whether there are any.
pub(crate) fn insert(
    connection: &Connection,
    mail: &Prepared,
    content: ContentId,
    recipients: &[(&Recipient, Task)],
    now: Timestamp,
) -> Result<bool, StoreError> {
    if recipients.is_empty() {
        return Ok(false);
    }
    let queue = insert_message(connection, mail, content, now)?;
    let sql =
        "INSERT INTO drop_queue_recipients (queue, position, recipient, delivered, notify, orcpt, next_attempt_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let mut statement = connection.prepare_cached(sql)?;
    for (position, (recipient, task)) in recipients.iter().enumerate() {
        statement.execute(params![
            queue,
            position,
            recipient.address.wire(),
            matches!(task, Task::NotifySuccess),
            recipient.notify.map(|notify| notify.to_string()),
            recipient.orcpt,
            now.as_millis(),
        ])?;
    }
    Ok(true)
}

fn insert_message(
    connection: &Connection,
    mail: &Prepared,
    content: ContentId,
    now: Timestamp,
) -> Result<i64, StoreError> {
    let sql = "INSERT INTO drop_queue (queue_id, message_id, sender, message_uuid, accepted_at, expires_at, ret, envid,
            submitter, author)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) RETURNING id";
    let incoming = &mail.incoming;
    let (submitter, author) = Submitter::columns(incoming.submitter.as_ref());
    let values = params![
        mail.queue_id.0,
        content,
        incoming.sender.as_ref().map(EmailAddress::wire),
        incoming.message_id.map(|id| id.to_string()),
        now.as_millis(),
        mail.expires_at.as_millis(),
        incoming.ret.map(|ret| ret.to_string()),
        incoming.envid,
        submitter,
        author,
    ];
    Ok(connection.prepare_cached(sql)?.query_row(values, |row| row.get(0))?)
}
