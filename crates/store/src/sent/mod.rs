//! Messages that were sent through the API.

mod begin;
pub(crate) mod read;

use mailapi_model::{EmailAddress, MessageId, QueueId, RecipientKind, Reply, Timestamp, TokenId};

use crate::StoreError;
use crate::db::{Db, Stmt, count};
use crate::{delivery_log, statuses};
pub use begin::{Begun, StoredAnswer};
pub use read::{PendingMessage, SentFilter, SentOwner, SentRecord};

/// The sent messages.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a>(pub(crate) &'a Db);

/// A message that is about to be handed to the mail server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSent {
    /// Its identifier.
    pub message_id: MessageId,
    /// The token that sends it.
    pub token_id: Option<TokenId>,
    /// The mailbox of that token.
    pub mailbox: Option<EmailAddress>,
    /// The address it is sent from.
    pub from: EmailAddress,
    /// The To recipients, to be listed.
    pub to: Vec<EmailAddress>,
    /// The subject, decoded.
    pub subject: String,
    /// Who gets it. Of an address that is there twice the first is kept.
    pub recipients: Vec<(EmailAddress, RecipientKind)>,
    /// How many recipients the request listed, repeated ones included.
    pub recipient_count: usize,
    /// When.
    pub created_at: Timestamp,
    /// How a repeated request is known.
    pub idempotency: Option<Idempotency>,
    /// The name of the data directory whose process hands it over, where that has to be known after a crash.
    pub node: Option<String>,
}

/// The caller's name of a request, by which a repeat of it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// Whose name it is: two tokens may use the same one.
    pub token_id: TokenId,
    /// The `Idempotency-Key`.
    pub key: String,
    /// A hash of the request, to tell a repeat from another request under the same key.
    pub body_hash: Vec<u8>,
    /// Until when the answer is kept.
    pub expires_at: Timestamp,
}

/// Why the mail server did not take a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure<'a> {
    /// In words; this is what a repeat of the request is answered.
    pub reason: &'a str,
    /// What the mail server said about the message as a whole, when it said something.
    pub reply: Option<&'a Reply>,
    /// What it said about single recipients.
    pub refused: &'a [(EmailAddress, Reply)],
}

impl Sent<'_> {
    /// Stores a message as pending, with its recipients and the name of its request: all or nothing. When the request
    /// was seen before nothing is stored.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when there is a message of this identifier.
    pub async fn begin(&self, message: &NewSent) -> Result<Begun, StoreError> {
        begin::begin(self.0, message, begin::Kept::OnDisk).await
    }

    /// The same for a mail server that takes the message over by writing into the same file, behind this: on SQLite it
    /// answers without waiting for the disk. What the mail server has on disk is never there without this.
    ///
    /// # Errors
    /// As [`Sent::begin`].
    pub async fn begin_in_one_file(&self, message: &NewSent) -> Result<Begun, StoreError> {
        begin::begin(self.0, message, begin::Kept::BeforeWhatFollows).await
    }

    /// Records that the mail server accepted the message for all recipients but the `refused`, each of which gets an
    /// entry in the delivery log. Earlier delivery events are kept; a second call changes nothing.
    ///
    /// It answers when everybody sees it, and does not wait for the disk: the message itself is at the mail server, and
    /// that it was begun is on disk. A loss of power leaves the message pending, as a crash between the two steps does,
    /// and the mail server is asked for it.
    ///
    /// # Errors
    /// A failed guard when there is no such message.
    pub async fn submitted(
        &self,
        message_id: MessageId,
        queue_id: &QueueId,
        at: Timestamp,
        refused: &[(EmailAddress, Reply)],
    ) -> Result<(), StoreError> {
        let mut statements = vec![statuses::lock(message_id)];
        statements.extend(refusals(message_id, queue_id, refused, at));
        statements.push(statuses::after_submission(message_id));
        statements.push(statuses::note_submitted(message_id, queue_id, at).demand(1));
        self.0.batch_in_order(statements).await.map(drop)
    }

    /// Records that the mail server did not accept the message. The delivery log gets an entry for each recipient that
    /// was refused individually.
    ///
    /// # Errors
    /// A failed guard when there is no such message, or when it was submitted.
    pub async fn failed(&self, message_id: MessageId, at: Timestamp, failure: Failure<'_>) -> Result<(), StoreError> {
        let note = Stmt::new(
            "UPDATE sent_messages SET failure = $2, failed_at = $3 WHERE message_id = $1 AND submitted_at IS NULL",
        );
        let mut statements = vec![statuses::lock(message_id)];
        statements.extend(refusals(message_id, &QueueId::standing_in(message_id), failure.refused, at));
        statements.push(note.bind(message_id).bind(failure.reason).bind(at).demand(1));
        statements.push(statuses::after_failure(message_id, failure.reason, failure.reply, at));
        statements.push(statuses::recompute(message_id));
        self.0.batch(statements).await.map(drop)
    }

    /// At most `limit` messages of which nobody knows whether the mail server took them, oldest first and those behind
    /// `after` alone: what a crash left behind, and what is being handed over at this moment. None behind a message
    /// that is not there.
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

    /// Forgets the requests whose answers need not be kept at `now`; how many there were.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn forget_requests(&self, now: Timestamp) -> Result<u64, StoreError> {
        let sql = "DELETE FROM idempotency WHERE expires_at <= $1";
        Ok(self.0.execute(Stmt::new(sql).bind(now)).await?.touched)
    }
}

/// For each refusal, an entry in the delivery log and the recipient's status. They are written before the message is
/// marked as submitted or failed, because that mark keeps a second call from adding the entries again.
fn refusals(
    message_id: MessageId,
    queue_id: &QueueId,
    refused: &[(EmailAddress, Reply)],
    at: Timestamp,
) -> impl Iterator<Item = Stmt> {
    refused.iter().flat_map(move |(recipient, reply)| {
        let entry = delivery_log::insert_refusal(message_id, queue_id, recipient, reply, at);
        [entry, statuses::after_refusal(message_id, recipient, reply, at)]
    })
}
