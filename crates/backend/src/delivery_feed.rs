//! The delivery feed: delivery events in the order in which the mail server reports them.

use async_trait::async_trait;
use mailapi_model::{
    DeliveryEvent, DomainName, EmailAddress, FeedCursor, MessageId, NoticeKind, QueueId, ReceivedMail, SubmittedReport,
    Timestamp,
};

/// The mail server's delivery reports, read from a cursor.
#[async_trait]
pub trait DeliveryFeed: Send + Sync {
    /// Returns the name under which the reader stores its cursor.
    fn name(&self) -> &str;

    /// Returns at most `max` events after `cursor`, in order. An empty cursor is the beginning.
    ///
    /// The reader stores events and cursor in one transaction, so that none is lost or counted twice.
    /// # Errors
    /// [`FeedError`] when the source cannot be read; no event is lost.
    async fn read_after(&self, cursor: &FeedCursor, max: usize) -> Result<FeedBatch, FeedError>;

    /// Releases everything up to `cursor`: the reader has stored it, and the source may forget it.
    ///
    /// # Errors
    /// [`FeedError`] when this could not be recorded; a later call is enough.
    async fn forget_until(&self, cursor: &FeedCursor) -> Result<(), FeedError>;

    /// Saves the state that the source needs to continue. Called when the reader stops.
    ///
    /// # Errors
    /// [`FeedError`] when saving failed; the source then continues from the previously saved state.
    async fn stop(&self) -> Result<(), FeedError> {
        Ok(())
    }

    /// Returns when there may be new events. Spurious wake-ups are allowed, missed ones are not.
    async fn changed(&self);

    /// Returns the result of the last attempt to read the source; `None` if the source is part of this
    /// server's own data.
    async fn check(&self) -> Option<Result<(), String>> {
        None
    }

    /// Returns the seconds by which the clock of the reports is ahead of this machine's; negative if it is
    /// behind.
    async fn clock_ahead(&self) -> i64 {
        0
    }

    /// Returns, for each recipient, whether the mail server still has the message for it, or has a report about it
    /// that was not read. A mail server that cannot determine this answers true.
    ///
    /// # Errors
    /// [`FeedError`] when the mail server cannot be queried at the moment.
    async fn are_awaited(&self, recipients: &[Awaited]) -> Result<Vec<bool>, FeedError> {
        Ok(vec![true; recipients.len()])
    }

    /// Returns the size of the mail server's queue, which may count at most `limit` messages; `None` if it is
    /// unknown here.
    ///
    /// # Errors
    /// [`FeedError`] when the queue cannot be read.
    async fn queue(&self, limit: usize) -> Result<Option<QueueSize>, FeedError> {
        let _ = limit;
        Ok(None)
    }

    /// Describes reports that were recently lost, as text for the operator. The feed continues nevertheless.
    async fn losses(&self) -> Option<String> {
        None
    }

    /// Returns the recently lost parts of the source, oldest first. A part is the same in each answer.
    async fn lost_parts(&self) -> Vec<LostPart> {
        Vec::new()
    }
}

/// A part of the source that was lost: reports in it are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostPart {
    /// When the loss was noticed.
    pub at: Timestamp,
    /// The time of the last report before it; `None` if there was none.
    pub from: Option<Timestamp>,
    /// The time of the first report after it, or when the loss was noticed.
    pub to: Timestamp,
    /// What happened, as one word.
    pub reason: &'static str,
}

/// A recipient whose delivery was not reported as final.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awaited {
    /// The message id.
    pub message_id: MessageId,
    /// The mail server's queue id.
    pub queue_id: Option<QueueId>,
    /// The recipient that the sender named.
    pub recipient: EmailAddress,
    /// Whether this process submitted the message, or an ended process on the same data directory.
    pub by_this_node: bool,
}

/// Messages in the mail server's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueSize {
    /// Messages without a failed attempt.
    pub queued: u64,
    /// Messages with a recipient that waits for the next attempt.
    pub deferred: u64,
    /// When the oldest message was accepted.
    pub oldest: Option<Timestamp>,
}

/// A batch of the feed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeedBatch {
    /// The events, oldest first.
    pub events: Vec<DeliveryEvent>,
    /// Messages that were discarded as a whole, oldest first. They do not count towards `max`.
    pub discarded: Vec<Discarded>,
    /// Messages delivered to mailboxes, oldest first, unless the mail server stored their events itself. They do not
    /// count towards `max`. Addresses without an account are ignored.
    pub received: Vec<ReceivedMail>,
    /// Reports about mail that mail programs submitted, oldest first, unless the mail server stored their events itself.
    /// They do not count towards `max`.
    pub submitted: Vec<SubmittedReport>,
    /// Mail of other servers about messages, oldest first. They do not count towards `max`.
    pub notices: Vec<ReturnedNotice>,
    /// The cursor after this batch.
    pub cursor: FeedCursor,
    /// Number of records read from the source, including those without an event.
    pub lines_read: u64,
    /// Whether more events may be available at once.
    pub more: bool,
}

/// A message that the mail server accepted and then discarded by a rule of its operator: no recipient
/// receives it.
///
/// The report does not name the recipients; the reader looks them up by the message id. Nothing is reported
/// for known copies, which the mail server or a content filter made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discarded {
    /// When it was discarded.
    pub at: Timestamp,
    /// The message id assigned by this server. A copy that is sent again has the same id.
    pub message_id: MessageId,
    /// The mail server's queue id.
    pub queue_id: QueueId,
    /// Recipients rejected at submission, so not affected by the discard.
    pub refused: Vec<EmailAddress>,
    /// The rule, in the mail server's words.
    pub response: String,
}

/// Mail that another server returned to the address of a message, and that may change no status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnedNotice {
    /// When it arrived.
    pub at: Timestamp,
    /// The message.
    pub message_id: MessageId,
    /// What it is about.
    pub kind: NoticeKind,
    /// The domain of its author.
    pub server: Option<DomainName>,
    /// The beginning of its text, for people.
    pub text: String,
    /// The addresses that it calls failed. If one is a recipient, an event reports the failure, and not the notice.
    pub failed: Vec<EmailAddress>,
}

/// Why the feed could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the delivery feed cannot be read: {0}")]
pub struct FeedError(pub String);
