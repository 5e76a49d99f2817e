//! What became of messages: facts in the order in which the mail server tells them.

use async_trait::async_trait;
use mailapi_model::{DeliveryEvent, EmailAddress, FeedCursor, MessageId, QueueId, Timestamp};

/// The mail server's reports, read from where the reader left off.
#[async_trait]
pub trait DeliveryFeed: Send + Sync {
    /// The name under which the reader keeps its place.
    fn name(&self) -> &str;

    /// At most `max` events after `cursor`, in order. The reader stores them together with the new cursor, so that
    /// none is lost or counted twice whenever it stops. An empty cursor is the beginning.
    ///
    /// # Errors
    /// [`FeedError`] when the source cannot be read; nothing is lost by that.
    async fn read_after(&self, cursor: &FeedCursor, max: usize) -> Result<FeedBatch, FeedError>;

    /// The reader has safely stored everything up to `cursor`: the source may forget it.
    ///
    /// # Errors
    /// [`FeedError`] when that could not be noted; asking again later is enough.
    async fn forget_until(&self, cursor: &FeedCursor) -> Result<(), FeedError>;

    /// Called when the reader stops: the source saves the state that it needs to continue.
    ///
    /// # Errors
    /// [`FeedError`] when saving failed; the source then continues from the previously saved state.
    async fn stop(&self) -> Result<(), FeedError> {
        Ok(())
    }

    /// Returns when there may be something new. May return too often, never too seldom.
    async fn changed(&self);

    /// Whether the source could be read when that was last tried, and otherwise why not; `None` for a source that is
    /// part of the product's own data.
    async fn check(&self) -> Option<Result<(), String>> {
        None
    }

    /// Seconds by which the clock of the reports is ahead of ours; negative when it is behind, zero when they agree.
    async fn clock_ahead(&self) -> i64 {
        0
    }

    /// What of its reports was lost for good a short while ago, in words for the operator, though it goes on.
    async fn losses(&self) -> Option<String> {
        None
    }
}

/// A piece of the feed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeedBatch {
    /// The events, oldest first.
    pub events: Vec<DeliveryEvent>,
    /// The messages that were thrown away whole, oldest first. They come on top of `max`.
    pub discarded: Vec<Discarded>,
    /// Where to go on.
    pub cursor: FeedCursor,
    /// How many records of the source were looked at, those without an event included.
    pub lines_read: u64,
    /// Whether there may be more at once.
    pub more: bool,
}

/// A message of ours that the mail server took and threw away, by a rule of its operator: no recipient gets it. The
/// report names none of them; the reader knows whom the message was for. Of what is known to be a copy, which the mail
/// server or a filter behind it made, nothing is reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discarded {
    /// When it was thrown away.
    pub at: Timestamp,
    /// Ours, as the message has it; a copy of it that somebody sends again has the same.
    pub message_id: MessageId,
    /// The mail server's name of the message.
    pub queue_id: QueueId,
    /// Recipients that were refused before, and so were not among those of the message.
    pub refused: Vec<EmailAddress>,
    /// By which rule, as the mail server says it.
    pub response: String,
}

/// Why the feed could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the delivery feed cannot be read: {0}")]
pub struct FeedError(pub String);
