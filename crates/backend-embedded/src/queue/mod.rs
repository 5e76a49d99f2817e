//! The queue: messages on their way to other servers, kept until each recipient is finished.
//!
//! A recipient is claimed with a lease, tried, and recorded. Recording writes the result, its delivery event and the
//! notices that it causes in one transaction. A claim that is never recorded, because of a crash, ends with its lease.

mod claim;
mod columns;
mod insert;
mod put_off;
mod record;

use mailapi_model::{EmailAddress, MessageId, QueueId, Reply, ReversePath, Timestamp};
use mailapi_smtp::{Notify, Ret};

use crate::message_store::Layout;

pub(crate) use columns::{read_reply, reply_columns};
pub(crate) use insert::insert;
pub use record::{Attempt, Notice, RecipientResult};

/// A message in the queue, as a number that is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueKey(pub(crate) i64);

/// What is to be done for a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Hand the message to the recipient's server.
    Deliver,
    /// The message lies in a mailbox here; its sender wants to hear of that (RFC 3461 section 4.1).
    TellOfSuccess,
}

/// A message with recipients that were claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedMessage {
    /// Its number in the queue.
    pub key: QueueKey,
    /// Its name in logs and in the delivery feed.
    pub queue_id: QueueId,
    /// Where its octets are; [`Layout::as_submitted`] is what goes to the next server.
    pub layout: Layout,
    /// The reverse-path.
    pub sender: ReversePath,
    /// Our identifier, when it came through the API.
    pub message_id: Option<MessageId>,
    /// When it was taken over.
    pub accepted_at: Timestamp,
    /// When to give up.
    pub expires_at: Timestamp,
    /// How much of it a failure notice returns.
    pub ret: Option<Ret>,
    /// The sender's name for the envelope.
    pub envid: Option<String>,
    /// The recipients that were claimed, in the order of the envelope.
    pub recipients: Vec<QueuedRecipient>,
}

impl QueuedMessage {
    /// The claimed recipient at a place of the envelope.
    fn recipient_at(&self, position: u32) -> Option<&QueuedRecipient> {
        self.recipients.iter().find(|recipient| recipient.position == position)
    }
}

/// A recipient in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedRecipient {
    /// Its place in the envelope; with [`QueuedMessage::key`] its name.
    pub position: u32,
    /// Who.
    pub address: EmailAddress,
    /// What is to be done.
    pub task: Task,
    /// Which notices the sender wants.
    pub notify: Option<Notify>,
    /// The ORCPT parameter as it was written.
    pub orcpt: Option<String>,
    /// How often it was tried before.
    pub attempts: u32,
    /// Whether the sender was told of the message's delay.
    pub delay_notified: bool,
    /// How the last try ended.
    pub last_reply: Option<Reply>,
}
