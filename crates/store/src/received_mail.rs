//! Mail that mailboxes received, until its events are complete.
//!
//! The reader of a feed stores a row with the feed's cursor. Reading the mailbox takes longer, so it comes later. The
//! transaction that stores the event deletes the row, so a crash neither loses nor repeats an event.

use mailapi_events::{EventId, NewEvent, authentication_from_json, authentication_to_json, received_id};
use mailapi_model::{EmailAddress, FeedCursor, FolderName, QueueId, ReceivedMail};

use crate::StoreError;
use crate::db::{Db, Row, Stmt, count};
use crate::events::Log;

/// Separates a mailbox from the detail of an address (RFC 5233). Postfix and Dovecot use it unless configured otherwise.
const DETAIL: char = '+';

/// Received mail without an event.
#[derive(Debug, Clone, Copy)]
pub struct WaitingMails<'a>(pub(crate) &'a Db);

/// A received message without an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingMail {
    /// The row.
    id: i64,
    /// The id of its event.
    pub event_id: EventId,
    /// The message; its address is that of an account.
    pub mail: ReceivedMail,
}

impl WaitingMails<'_> {
    /// Returns at most `limit` messages, oldest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn oldest(&self, limit: usize) -> Result<Vec<WaitingMail>, StoreError> {
        let sql = "SELECT id, event_id, at, mailbox, queue_id, header_id, folder, uid, authentication, recipient \
                   FROM received_mail ORDER BY id LIMIT $1";
        let rows = self.0.query(Stmt::new(sql).bind(count(limit))).await?;
        rows.into_iter().map(read).collect()
    }

    /// Stores the event of a message, which then no longer waits. Returns false if another process has done so.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn finish(&self, waiting: &WaitingMail, event: &NewEvent) -> Result<bool, StoreError> {
        let delete = Stmt::new("DELETE FROM received_mail WHERE id = $1").bind(waiting.id).demand(1);
        match self.0.batch(vec![delete, Log::of(self.0).insert(event)]).await {
            Err(error) if error.is_guard_failed() => Ok(false),
            stored => stored.map(|_| true),
        }
    }
}

/// Returns a statement that stores a message of a feed's batch if its address belongs to an account.
pub(crate) fn insert(mail: &ReceivedMail, feed: &str, to: &FeedCursor, place: usize) -> Stmt {
    let source = [feed.as_bytes(), to.0.as_bytes(), &place.to_be_bytes()];
    let (folder, uid) = mail.place.as_ref().map(|(folder, uid)| (folder.as_str(), i64::from(*uid))).unzip();
    Stmt::new(
        "INSERT INTO received_mail (event_id, at, mailbox, queue_id, header_id, folder, uid, authentication, recipient) \
         SELECT CAST($1 AS TEXT), CAST($2 AS BIGINT), email, CAST($3 AS TEXT), CAST($4 AS TEXT), CAST($5 AS TEXT), \
         CAST($6 AS BIGINT), CAST($9 AS TEXT), CAST($10 AS TEXT) FROM accounts WHERE email IN ($7, $8) \
         ORDER BY LENGTH(email) DESC LIMIT 1",
    )
    .bind(received_id(&mail.mailbox, mail.at, &source).to_string())
    .bind(mail.at)
    .bind(&mail.queue_id)
    .bind(mail.header_id.clone())
    .bind(folder.map(str::to_owned))
    .bind(uid)
    .bind(&mail.mailbox)
    .bind(without_detail(&mail.mailbox))
    .bind(mail.authentication.as_ref().map(authentication_to_json))
    .bind(mail.recipient.as_ref().map(|recipient| recipient.shown().to_owned()))
}

/// Returns the address without its detail.
fn without_detail(address: &EmailAddress) -> String {
    let local = address.local().split_once(DETAIL).map_or(address.local(), |(name, _)| name);
    format!("{local}@{}", address.domain_str())
}

fn read(mut row: Row) -> Result<WaitingMail, StoreError> {
    let (id, event_id, at) = (row.int()?, row.parsed()?, row.time()?);
    let (mailbox, queue_id, header_id) = (row.parsed()?, QueueId(row.text()?), row.text_or_null()?);
    let folder: Option<FolderName> = row.parsed_or_null()?;
    let place = folder.zip(row.int_or_null()?.and_then(|uid| u32::try_from(uid).ok()));
    let authentication = row.text_or_null()?;
    let authentication = authentication.as_deref().and_then(authentication_from_json);
    let recipient = row.parsed_or_null()?;
    let mail = ReceivedMail { at, mailbox, recipient, queue_id, header_id, place, authentication };
    Ok(WaitingMail { id, event_id, mail })
}
