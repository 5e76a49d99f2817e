//! The mail server's queue, as its operator sees and changes it.

use async_trait::async_trait;
use mailapi_model::{DomainName, EmailAddress, Listed, MessageId, Page, QueueId, QueueState, Timestamp};

/// The messages that the mail server accepted and has not finished.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Returns a page of the messages that match the filter, those that wait longest first. An entry has at most
    /// [`QueueEntry::LISTED_RECIPIENTS`] recipients.
    ///
    /// # Errors
    /// [`QueueError::Unsupported`] and [`QueueError::Unavailable`].
    async fn list(&self, filter: &QueueFilter, page: Page) -> Result<Listed<QueueEntry>, QueueError>;

    /// Returns one message, with at most [`QueueEntry::SHOWN_RECIPIENTS`] recipients.
    ///
    /// # Errors
    /// [`QueueError`]; [`QueueError::NotFound`] if the queue does not contain the message.
    async fn get(&self, id: &QueueId) -> Result<QueueEntry, QueueError>;

    /// Changes a message in the queue. `Ok` means that the change survives a crash.
    ///
    /// # Errors
    /// [`QueueError`]; nothing was changed, except perhaps after [`QueueError::Unavailable`].
    async fn change(&self, id: &QueueId, change: QueueChange) -> Result<(), QueueError>;
}

/// What the operator does to a message in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueChange {
    /// Makes all waiting recipients due now. A message on hold is not changed: [`QueueError::Held`].
    Retry,
    /// Starts no further attempt until [`QueueChange::Release`]. An attempt in progress continues, or this is
    /// [`QueueError::Busy`]. A message on hold does not expire.
    Hold,
    /// Ends [`QueueChange::Hold`]; the recipients are due now. Does nothing to other messages.
    Release,
    /// Removes the message. Its waiting recipients are bounced without a notice to the sender. During an attempt,
    /// this is [`QueueError::Busy`], so a removed message never leaves.
    Cancel,
}

impl QueueChange {
    /// Response of the bounces that [`QueueChange::Cancel`] causes.
    pub const CANCELLED: &str = "deleted from the queue by the operator";
}

/// Which messages to list. Each filter narrows the list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueFilter {
    /// The domain of the sender or of a recipient.
    pub domain: Option<DomainName>,
    /// A recipient.
    pub recipient: Option<EmailAddress>,
    /// The state of a recipient.
    pub state: Option<QueueState>,
}

/// A message in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueEntry {
    /// The queue id.
    pub queue_id: QueueId,
    /// Our identifier, if the API submitted the message.
    pub message_id: Option<MessageId>,
    /// The reverse-path in the mail server's form; empty for the null one.
    pub sender: String,
    /// Size in bytes.
    pub size: u64,
    /// When the mail server accepted it.
    pub queued_at: Timestamp,
    /// When retries end; `None` if the mail server does not report it.
    pub expires_at: Option<Timestamp>,
    /// The recipients that are not finished, in the order of the envelope, up to a limit.
    pub recipients: Vec<QueuedFor>,
    /// The number of recipients that are not finished.
    pub recipient_count: u64,
}

impl QueueEntry {
    /// Maximum number of recipients of each message in a list. A page of long lists would be too large to answer.
    pub const LISTED_RECIPIENTS: usize = 50;
    /// Maximum number of recipients of a single message.
    pub const SHOWN_RECIPIENTS: usize = 1_000;
    /// Maximum length of [`QueuedFor::last_reply`] in characters, as in events.
    pub const REPLY_CHARACTERS: usize = 500;
}

/// A recipient of a message in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedFor {
    /// The address in the mail server's form.
    pub email: String,
    /// The state.
    pub state: QueueState,
    /// The number of scheduled attempts that failed; `None` if the mail server does not report it.
    pub attempts: Option<u32>,
    /// When the next attempt is due; `None` while on hold or during an attempt, and if the mail server does not
    /// report it.
    pub next_attempt_at: Option<Timestamp>,
    /// The reply to the last attempt, or the reason why there was none; at most [`QueueEntry::REPLY_CHARACTERS`].
    pub last_reply: Option<String>,
}

/// Why the queue could not be shown or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The queue does not contain the message.
    #[error("the queue does not contain the message")]
    NotFound,
    /// A delivery attempt is in progress, so the message cannot be changed in this way.
    #[error("a delivery attempt is in progress; try again after it")]
    Busy,
    /// The message is on hold, so it cannot be retried.
    #[error("the message is on hold; release it instead")]
    Held,
    /// The mail server's queue is not accessible here; the text names what to configure.
    #[error("{0}")]
    Unsupported(String),
    /// The queue could not be read or changed, or the answer of the change is missing; the reason.
    #[error("the mail server's queue is not available: {0}")]
    Unavailable(String),
}
