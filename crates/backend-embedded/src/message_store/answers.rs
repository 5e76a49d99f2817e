//! Rows of automatic answers: those that wait for the delivery agent, and the senders that got one.

use mailapi_model::{EmailAddress, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, Row, params};

use super::id::MailboxId;
use super::{MessageStore, MessageStoreError, damaged};
use crate::accept::{AcceptError, MessageBreadth, Prepared, accept_in_transaction};

/// An answer to compose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Its author.
    pub(crate) mailbox: EmailAddress,
    /// The sender of the answered message.
    pub(crate) recipient: EmailAddress,
    pub(crate) subject: String,
    pub(crate) text: String,
    /// The Message-ID of the answered message; empty without one.
    pub(crate) in_reply_to: String,
}

/// An answer that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingAnswer {
    id: i64,
    pub(crate) answer: Answer,
}

/// Maximum number of senders of a mailbox that are remembered. Senders are easily invented, and each would get an
/// answer.
const MOST: i64 = 5_000;

/// Maximum number of answers that a mailbox sends in an hour, also if its rules change meanwhile. A flood of invented
/// senders would otherwise leave as a flood of answers at once.
const MOST_IN_AN_HOUR: i64 = 100;

/// Maximum number of answers that a sender gets in an hour, from all mailboxes together. Mail with a forged sender to all
/// mailboxes would otherwise bring all their answers to one victim.
const MOST_TO_SENDER: i64 = 20;

const HOUR_MILLIS: i64 = 60 * 60 * 1000;

/// Number of answers that the delivery agent composes in one step.
const STEP: i64 = 50;

/// Number of remembered senders that one step deletes.
const FORGOTTEN: i64 = 1_000;

/// Adds an answer, unless the sender had one and may get the next one only later. Returns whether it was added.
pub(crate) fn add(
    connection: &Connection,
    mailbox: MailboxId,
    answer: &Answer,
    now: Timestamp,
    next: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM drop_answered WHERE mailbox_id = ?1 AND sender = ?2 AND until > ?3";
    // Each tag would make another sender of the same one.
    let sender = answer.recipient.without_tag().unwrap_or_else(|| answer.recipient.clone());
    let sender = sender.as_str();
    if connection.prepare_cached(sql)?.exists(params![mailbox, sender, now.as_millis()])? {
        return Ok(false);
    }
    let sql = "SELECT count(*) FILTER (WHERE until > ?2), count(*) FILTER (WHERE answered_at > ?3) FROM drop_answered
        WHERE mailbox_id = ?1";
    let values = params![mailbox, now.as_millis(), now.as_millis() - HOUR_MILLIS];
    let (known, recent): (i64, i64) =
        connection.prepare_cached(sql)?.query_row(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    if known >= MOST || recent >= MOST_IN_AN_HOUR {
        tracing::info!(mailbox = %answer.mailbox, "too many senders were answered; no further one is");
        return Ok(false);
    }
    let sql = "SELECT count(*) FROM drop_answered WHERE sender = ?1 AND answered_at > ?2";
    let values = params![sender, now.as_millis() - HOUR_MILLIS];
    let of_sender: i64 = connection.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
    if of_sender >= MOST_TO_SENDER {
        tracing::info!(mailbox = %answer.mailbox, "the sender got too many answers; no further one is sent");
        return Ok(false);
    }
    let sql = "INSERT OR REPLACE INTO drop_answered (mailbox_id, sender, until, answered_at) VALUES (?1, ?2, ?3, ?4)";
    connection.prepare_cached(sql)?.execute(params![mailbox, sender, next.as_millis(), now.as_millis()])?;
    let sql = "INSERT INTO drop_answers (mailbox_id, mailbox, recipient, subject, text, in_reply_to)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let Answer { mailbox: author, recipient, subject, text, in_reply_to } = answer;
    let values = params![mailbox, author.wire(), recipient.wire(), subject, text, in_reply_to];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(true)
}

/// Lets every sender get another answer. Those of the last hour still count.
pub(super) fn allow_again(connection: &Connection, mailbox: MailboxId) -> Result<(), StoreError> {
    let sql = "UPDATE drop_answered SET until = answered_at WHERE mailbox_id = ?1";
    connection.prepare_cached(sql)?.execute(params![mailbox])?;
    Ok(())
}

/// Removes the answers of a mailbox that wait.
pub(super) fn drop_waiting(connection: &Connection, mailbox: MailboxId) -> Result<(), StoreError> {
    connection.prepare_cached("DELETE FROM drop_answers WHERE mailbox_id = ?1")?.execute(params![mailbox])?;
    Ok(())
}

/// Removes the answers of a mailbox that wait, and forgets the senders that got one.
pub(super) fn remove(connection: &Connection, mailbox: MailboxId) -> Result<(), StoreError> {
    drop_waiting(connection, mailbox)?;
    connection.prepare_cached("DELETE FROM drop_answered WHERE mailbox_id = ?1")?.execute(params![mailbox])?;
    Ok(())
}

fn read(row: &Row<'_>) -> Result<WaitingAnswer, MessageStoreError> {
    let address = |text: String| EmailAddress::as_given(&text).map_err(|_| damaged("an address"));
    let (mailbox, recipient) = (address(row.get(1)?)?, address(row.get(2)?)?);
    let answer = Answer { mailbox, recipient, subject: row.get(3)?, text: row.get(4)?, in_reply_to: row.get(5)? };
    Ok(WaitingAnswer { id: row.get(0)?, answer })
}

impl MessageStore {
    /// Returns some answers that wait.
    pub(crate) async fn waiting_answers(&self) -> Result<Vec<WaitingAnswer>, MessageStoreError> {
        self.read_one(|connection| {
            let sql =
                "SELECT id, mailbox, recipient, subject, text, in_reply_to FROM drop_answers ORDER BY id LIMIT ?1";
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_and_then(params![STEP], read)?;
            rows.collect()
        })
        .await
    }

    /// Accepts the message of an answer, which no longer waits.
    ///
    /// # Errors
    /// [`AcceptError`]; then the answer still waits.
    pub(crate) async fn accept_answer(&self, waiting: &WaitingAnswer, message: Prepared) -> Result<(), AcceptError> {
        let (id, settings, now) = (waiting.id, self.settings().clone(), self.clock().now());
        self.write(move |connection, touched| {
            // The owner may have replaced the rules meanwhile.
            if delete(connection, id)? {
                accept_in_transaction(connection, &message, &settings, MessageBreadth::Wide, now, touched)?;
            }
            Ok(())
        })
        .await
    }

    /// Removes an answer that cannot be sent.
    pub(crate) async fn drop_answer(&self, waiting: &WaitingAnswer) -> Result<(), MessageStoreError> {
        let id = waiting.id;
        self.write(move |connection, _| Ok(delete(connection, id).map(drop)?)).await
    }

    /// Forgets some senders that may get another answer, and got none in the last hour. Returns their number.
    pub(crate) async fn forget_answered_once(&self) -> Result<usize, MessageStoreError> {
        let now = self.clock().now().as_millis();
        let an_hour_ago = now - HOUR_MILLIS;
        let any = "SELECT 1 FROM drop_answered WHERE until <= ?1 AND answered_at <= ?2";
        let any = self.read_one(|connection| {
            Ok::<_, MessageStoreError>(connection.prepare_cached(any)?.exists(params![now, an_hour_ago])?)
        });
        if !any.await? {
            return Ok(0);
        }
        self.write(move |connection, _| {
            let sql = "DELETE FROM drop_answered WHERE rowid IN
                (SELECT rowid FROM drop_answered WHERE until <= ?1 AND answered_at <= ?2 LIMIT ?3)";
            Ok(connection.prepare_cached(sql)?.execute(params![now, an_hour_ago, FORGOTTEN])?)
        })
        .await
    }
}

fn delete(connection: &Connection, id: i64) -> Result<bool, StoreError> {
    Ok(connection.prepare_cached("DELETE FROM drop_answers WHERE id = ?1")?.execute(params![id])? > 0)
}
