//! Messages sent through the API.

mod begin;
mod enlisted;
pub(crate) mod open;
pub(crate) mod read;
pub(crate) mod subject;

use mailapi_events::NewEvent;
use mailapi_model::{EmailAddress, MessageId, QueueId, RecipientKind, Reply, Timestamp, TokenId};

use crate::StoreError;
use crate::db::{Db, Stmt, count, number};
use crate::events::Log;
use crate::{delivery_log, statuses};
pub use begin::{Begun, StoredAnswer};
pub use enlisted::EnlistedRecord;
pub use open::{OpenMessages, OpenRecipient};
pub use read::{PendingMessage, SentFilter, SentOwner, SentRecord};
use subject::Subject;

/// The sent messages.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a>(pub(crate) &'a Db);

/// A message that is about to be submitted to the mail server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSent {
    /// The message id.
    pub message_id: MessageId,
    /// The token that sends it.
    pub token_id: Option<TokenId>,
    /// The mailbox of that token.
    pub mailbox: Option<EmailAddress>,
    /// The From address.
    pub from: EmailAddress,
    /// The To recipients, for lists.
    pub to: Vec<EmailAddress>,
    /// The decoded subject.
    pub subject: String,
    /// The envelope recipients. Of a repeated address, the first occurrence is stored.
    pub recipients: Vec<(EmailAddress, RecipientKind)>,
    /// Number of recipients in the request, including repeated ones.
    pub recipient_count: usize,
    /// Time of the request.
    pub created_at: Timestamp,
    /// Recognises a repeated request.
    pub idempotency: Option<Idempotency>,
    /// The name of the data directory of the submitting process, if it must be known after a crash.
    pub node: Option<String>,
    /// Length of the composed message in bytes, if it is known.
    pub size: Option<u64>,
}

/// The key of a request, which recognises a repeat of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The token that used the key: two tokens may use the same key.
    pub token_id: TokenId,
    /// The `Idempotency-Key`.
    pub key: String,
    /// A hash of the request, to distinguish a repeat from another request with the same key.
    pub body_hash: Vec<u8>,
    /// Expiry of the stored answer.
    pub expires_at: Timestamp,
}

/// Why the mail server did not accept a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure<'a> {
    /// The reason, as text. A repeat of the request receives it again.
    pub reason: &'a str,
    /// The mail server's reply to the message as a whole, if any.
    pub reply: Option<&'a Reply>,
    /// Its replies to individual recipients.
    pub refused: &'a [(EmailAddress, Reply)],
}

impl Sent<'_> {
    /// Stores a message as pending, with its recipients and the key of its request, in one transaction. For a
    /// repeated request, nothing is stored.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when a message with this id exists.
    pub async fn begin(&self, message: &NewSent) -> Result<Begun, StoreError> {
        begin::begin(self.0, message).await
    }

    /// Returns the record of a message for a transaction of a mail server that stores its mail in the same
    /// file; `None` if the engine has no file.
    #[must_use]
    pub fn enlist(&self, message: &NewSent) -> Option<EnlistedRecord> {
        match self.0 {
            Db::Sqlite(engine) => Some(EnlistedRecord::new(engine.clone(), message)),
            Db::Postgres(_) => None,
        }
    }

    /// Finds the earlier request with this key, compared with this one. It is never [`Begun::New`]. A stored
    /// answer is durable on return.
    ///
    /// # Errors
    /// When the database cannot be read, or its disk failed.
    pub async fn seen_before(&self, request: &Idempotency) -> Result<Option<Begun>, StoreError> {
        let seen = begin::seen_before(self.0, request).await?;
        if let (Some(Begun::Repeat(_)), Db::Sqlite(engine)) = (&seen, self.0) {
            // Commits are visible before they are on disk, and the first request may still wait for that.
            engine.flushed().await?;
        }
        Ok(seen)
    }

    /// Records that the mail server accepted the message for all recipients but the `refused`, each of which
    /// gets an entry in the delivery log. The events of both are stored with it. Earlier delivery events are kept; a
    /// second call changes nothing.
    ///
    /// On SQLite it returns once the change is visible, without waiting for the disk: the message itself is
    /// at the mail server, and its pending record is durable. After a power failure the message is pending
    /// again, as after a crash between the two steps, and the mail server is queried for it.
    ///
    /// # Errors
    /// A failed guard when the message does not exist.
    pub async fn submitted(
        &self,
        message_id: MessageId,
        queue_id: &QueueId,
        at: Timestamp,
        refused: &[(EmailAddress, Reply)],
    ) -> Result<(), StoreError> {
        let (log, subject) = (Log::of(self.0), Subject::read(self.0, message_id).await?);
        let answer = Answer { log, message_id, subject: subject.as_ref(), queue_id, refused, at };
        self.0.batch_in_order(answer.submitted(Log::insert_if_untouched)).await.map(drop)
    }

    /// Like [`Sent::submitted`], for a message whose values the caller has: they are not read again.
    ///
    /// # Errors
    /// As [`Sent::submitted`].
    pub async fn submitted_new(
        &self,
        message: &NewSent,
        queue_id: &QueueId,
        at: Timestamp,
        refused: &[(EmailAddress, Reply)],
    ) -> Result<(), StoreError> {
        let (log, subject) = (Log::of(self.0), Subject::of_new(message));
        let message_id = message.message_id;
        let answer = Answer { log, message_id, subject: Some(&subject), queue_id, refused, at };
        self.0.batch_in_order(answer.submitted(Log::insert_if_untouched)).await.map(drop)
    }

    /// Records that the mail server did not accept the message. Each individually rejected recipient gets an
    /// entry in the delivery log, and each recipient an event.
    ///
    /// # Errors
    /// A failed guard when the message does not exist or was submitted.
    pub async fn failed(&self, message_id: MessageId, at: Timestamp, failure: Failure<'_>) -> Result<(), StoreError> {
        let note = Stmt::new(
            "UPDATE sent_messages SET failure = $2, failed_at = $3 WHERE message_id = $1 AND submitted_at IS NULL",
        );
        let (log, subject) = (Log::of(self.0), Subject::read(self.0, message_id).await?);
        let (queue_id, refused) = (&QueueId::standing_in(message_id), failure.refused);
        let answer = Answer { log, message_id, subject: subject.as_ref(), queue_id, refused, at };
        let mut statements = vec![statuses::lock(message_id)];
        statements.extend(answer.refusals());
        // The guard keeps a message that was submitted meanwhile.
        statements.push(note.bind(message_id).bind(failure.reason).bind(at).demand(1));
        statements.extend(subject.iter().flat_map(|subject| subject.failed(log, failure, at)));
        statements.push(statuses::after_failure(message_id, failure.reason, failure.reply, at));
        statements.push(statuses::recompute(message_id));
        self.0.batch(statements).await.map(drop)
    }

    /// Returns at most `limit` messages whose submission has no recorded outcome, oldest first, starting
    /// after `after`. They are being submitted now, or a crash interrupted them. If `after` does not exist,
    /// the list is empty.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn pending(&self, after: Option<MessageId>, limit: usize) -> Result<Vec<PendingMessage>, StoreError> {
        let pending = "SELECT message_id, sender, sender_given, created_at, node FROM sent_messages \
                       WHERE submitted_at IS NULL AND failed_at IS NULL";
        let page = match after {
            None => Stmt::new(format!("{pending} ORDER BY id LIMIT $1")),
            Some(after) => {
                let behind = "id > (SELECT id FROM sent_messages WHERE message_id = $1)";
                Stmt::new(format!("{pending} AND {behind} ORDER BY id LIMIT $2")).bind(after)
            }
        };
        let rows = self.0.query(page.bind(count(limit))).await?;
        rows.into_iter().map(read::read_pending).collect()
    }

    /// Deletes at most `limit` expired request keys; returns their number.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn forget_requests(&self, now: Timestamp, limit: u64) -> Result<u64, StoreError> {
        let sql = "DELETE FROM idempotency WHERE (token_id, key) IN (SELECT token_id, key FROM idempotency \
                   WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)";
        Ok(self.0.execute(Stmt::new(sql).bind(now).bind(number(limit))).await?.touched)
    }
}

/// What the mail server answered to a submission.
#[derive(Clone, Copy)]
struct Answer<'a> {
    log: Log,
    message_id: MessageId,
    /// `None` if the message does not exist.
    subject: Option<&'a Subject>,
    queue_id: &'a QueueId,
    refused: &'a [(EmailAddress, Reply)],
    at: Timestamp,
}

impl<'a> Answer<'a> {
    /// Returns the statements of [`Sent::submitted`]. The event of the submission is stored by the first of several
    /// calls; `store` tests that, unless the caller is certain.
    fn submitted(self, store: impl Fn(Log, &NewEvent) -> Stmt) -> Vec<Stmt> {
        let Self { log, message_id, queue_id, refused, at, .. } = self;
        let mut statements = vec![statuses::lock(message_id)];
        let accepted = self.subject.and_then(|subject| subject.accepted(queue_id, at, refused));
        statements.extend(accepted.map(|event| store(log, &event)));
        // Rejections first: `after_submission` changes every recipient that is still pending.
        statements.extend(self.refusals());
        statements.push(statuses::after_submission(message_id));
        statements.push(statuses::note_submitted(message_id, queue_id, at).demand(1));
        statements
    }

    /// Returns statements that add, for each rejection, an entry to the delivery log, an event, and the recipient's
    /// status.
    ///
    /// They must run before the message is marked as submitted or failed: that mark keeps a second call from
    /// adding the entries again.
    fn refusals(self) -> impl Iterator<Item = Stmt> + use<'a> {
        let Self { log, message_id, subject, queue_id, refused, at } = self;
        refused.iter().flat_map(move |refusal| {
            let (recipient, reply) = refusal;
            let entry = delivery_log::insert_refusal(message_id, queue_id, recipient, reply, at);
            let event = subject.and_then(|subject| subject.refused(log, queue_id, refusal, at));
            let status = statuses::after_refusal(message_id, recipient, reply, at);
            [Some(entry), event, Some(status)].into_iter().flatten()
        })
    }
}
