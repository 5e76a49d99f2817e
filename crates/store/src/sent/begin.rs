//! The first step of sending: stores the message, or finds the earlier request with the same key.

use mailapi_model::{EmailAddress, MessageId, MessageStatus, QueueId, RecipientKind, RecipientStatus, Timestamp};

use super::{Idempotency, NewSent};
use crate::StoreError;
use crate::db::{Db, Row, Stmt, count, number};

/// Result of [`super::Sent::begin`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// The message is stored as pending; submit it next.
    New,
    /// This request was answered before; nothing was stored.
    Repeat(StoredAnswer),
    /// This request is still in progress, or was when the program ended; nothing was stored.
    InFlight(MessageId),
    /// Another request used the same key; nothing was stored.
    Conflict,
}

/// The stored answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredAnswer {
    /// The message was submitted.
    Submitted {
        /// The message id.
        message_id: MessageId,
        /// The mail server's queue id.
        queue_id: QueueId,
        /// Number of recipients in the request.
        recipient_count: u64,
    },
    /// The message was not submitted.
    Failed {
        /// The message id.
        message_id: MessageId,
        /// The reason, as text.
        reason: String,
        /// Whether a retry may reach some recipient.
        retryable: bool,
    },
}

pub(super) async fn begin(db: &Db, message: &NewSent) -> Result<Begun, StoreError> {
    match (db.batch(statements(message)).await, &message.idempotency) {
        (Ok(_), _) => Ok(Begun::New),
        // The unique key detects a repeat, even of a concurrent request.
        (Err(error @ StoreError::Conflict(_)), Some(request)) => seen_before(db, request).await?.ok_or(error),
        (Err(error), _) => Err(error),
    }
}

/// Returns the statements that store a message as pending.
pub(super) fn statements(message: &NewSent) -> Vec<Stmt> {
    let mut statements = Vec::with_capacity(message.recipients.len() + 3);
    if let Some(request) = &message.idempotency {
        // An expired key may be used again.
        statements.push(forget_if_expired(request, message.created_at));
        statements.push(remember(request, message.message_id));
    }
    statements.push(insert_message(message));
    let recipients = message.recipients.iter().zip(0..);
    statements.extend(recipients.map(|((email, kind), place)| insert_recipient(message, email, *kind, place)));
    statements
}

fn forget_if_expired(request: &Idempotency, now: Timestamp) -> Stmt {
    Stmt::new("DELETE FROM idempotency WHERE token_id = $1 AND key = $2 AND expires_at <= $3")
        .bind(request.token_id)
        .bind(request.key.as_str())
        .bind(now)
}

fn remember(request: &Idempotency, message_id: MessageId) -> Stmt {
    Stmt::new("INSERT INTO idempotency (token_id, key, body_hash, message_id, expires_at) VALUES ($1, $2, $3, $4, $5)")
        .bind(request.token_id)
        .bind(request.key.as_str())
        .bind(request.body_hash.as_slice())
        .bind(message_id)
        .bind(request.expires_at)
}

fn insert_message(message: &NewSent) -> Stmt {
    let to: Vec<&str> = message.to.iter().map(EmailAddress::shown).collect();
    Stmt::new(
        "INSERT INTO sent_messages (message_id, token_id, mailbox, mailbox_given, sender, sender_given, to_list, \
         subject, recipient_count, status, created_at, node, size) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
    )
    .bind(message.message_id)
    .bind(message.token_id)
    .bind(message.mailbox.as_ref())
    .bind(message.mailbox.as_ref().and_then(EmailAddress::given))
    .bind(&message.from)
    .bind(message.from.given())
    .bind(to.join("\n"))
    .bind(message.subject.as_str())
    .bind(count(message.recipient_count))
    .bind(MessageStatus::Pending)
    .bind(message.created_at)
    .bind(message.node.as_deref())
    .bind(message.size.map(number))
}

fn insert_recipient(message: &NewSent, email: &EmailAddress, kind: RecipientKind, place: i64) -> Stmt {
    Stmt::new(
        "INSERT INTO sent_recipients (sent_id, email, email_given, position, kind, status, refused, attempts) \
         SELECT id, CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS BIGINT), CAST($5 AS TEXT), CAST($6 AS TEXT), \
         FALSE, 0 FROM sent_messages WHERE message_id = $1 ON CONFLICT (sent_id, email) DO NOTHING",
    )
    .bind(message.message_id)
    .bind(email)
    .bind(email.given())
    .bind(place)
    .bind(kind)
    .bind(RecipientStatus::Pending)
}

/// Finds the earlier request with this key; `None` if the conflict has another cause.
///
/// A failed message is retryable if a recipient was rejected temporarily (4yz), or was not rejected at all.
pub(super) async fn seen_before(db: &Db, request: &Idempotency) -> Result<Option<Begun>, StoreError> {
    let sql = "SELECT body_hash, idempotency.message_id, queue_id, failure, recipient_count, \
               submitted_at IS NOT NULL, failed_at IS NOT NULL, \
               EXISTS (SELECT 1 FROM sent_recipients WHERE sent_id = sent_messages.id AND status = 'failed' \
               AND (NOT refused OR smtp_response LIKE '4%')) \
               FROM idempotency JOIN sent_messages ON sent_messages.message_id = idempotency.message_id \
               WHERE idempotency.token_id = $1 AND key = $2";
    let row = db.first(Stmt::new(sql).bind(request.token_id).bind(request.key.as_str())).await?;
    row.map(|row| read_seen(row, &request.body_hash)).transpose()
}

fn read_seen(mut row: Row, body_hash: &[u8]) -> Result<Begun, StoreError> {
    let same = row.bytes()? == body_hash;
    let message_id: MessageId = row.parsed()?;
    let queue_id = row.text_or_null()?.map(QueueId);
    let failure = row.text_or_null()?;
    let recipient_count = row.unsigned()?;
    let (submitted, failed, retryable) = (row.bool()?, row.bool()?, row.bool()?);
    // The body is compared first: another request must not see the answer stored under its key.
    Ok(match queue_id {
        _ if !same => Begun::Conflict,
        Some(queue_id) if submitted => Begun::Repeat(StoredAnswer::Submitted { message_id, queue_id, recipient_count }),
        _ if failed => {
            Begun::Repeat(StoredAnswer::Failed { message_id, reason: failure.unwrap_or_default(), retryable })
        }
        _ => Begun::InFlight(message_id),
    })
}
