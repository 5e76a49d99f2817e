//! The queue: messages for other servers, stored until every recipient is finished.
//!
//! A recipient is claimed with a lease, attempted and recorded. Recording writes the result, its delivery
//! event and the resulting notices in one transaction. After a crash, an unrecorded claim ends with its
//! lease.
//!
//! The operator changes the queue in transactions of their own ([`mailapi_backend::Queue`]). A claimed recipient is
//! never removed, so an attempt never sends what the operator removed.

mod change;
mod claim;
mod columns;
mod hold;
mod insert;
mod list;
mod put_off;
mod record;
mod size;

use mailapi_model::{EmailAddress, MessageId, QueueId, Reply, ReversePath, Timestamp};
use mailapi_smtp::{Notify, Ret};

use crate::accept::LeftFor;
use crate::message_store::Layout;
use crate::submitter::Submitter;

pub(crate) use columns::{read_reply, reply_columns};
pub(crate) use hold::HeldClaim;
pub(crate) use insert::{Waiting, insert};
pub use record::{Attempt, Notice, RecipientResult};
pub(crate) use size::{recipients, size};

/// Number of a message in the queue; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueKey(pub(crate) i64);

/// Work to do for a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Transmit the message to the recipient's server.
    Deliver,
    /// Send the success notice of a local delivery (RFC 3461 section 4.1).
    NotifySuccess,
}

/// A message with claimed recipients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedMessage {
    /// Its number in the queue.
    pub key: QueueKey,
    /// Its queue id in logs and in the delivery feed.
    pub queue_id: QueueId,
    /// Location of its bytes; [`Layout::as_submitted`] is the text that other servers get.
    pub layout: Layout,
    /// The reverse-path.
    pub sender: ReversePath,
    /// Our identifier, if the API submitted it.
    pub message_id: Option<MessageId>,
    /// The mailbox that submitted it with a login.
    pub submitter: Option<Submitter>,
    /// Whether it came from another server, which may have forged the sender.
    pub from_outside: bool,
    /// Time at which it was accepted.
    pub accepted_at: Timestamp,
    /// Time at which retries end.
    pub expires_at: Timestamp,
    /// How much of the message a failure notice returns.
    pub ret: Option<Ret>,
    /// The sender's envelope identifier.
    pub envid: Option<String>,
    /// The claimed recipients, in the order of the envelope.
    pub recipients: Vec<QueuedRecipient>,
}

impl QueuedMessage {
    /// Returns the claimed recipient at a position of the envelope.
    fn recipient_at(&self, position: u32) -> Option<&QueuedRecipient> {
        self.recipients.iter().find(|recipient| recipient.position == position)
    }
}

/// A queued recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedRecipient {
    /// Position in the envelope; with [`QueuedMessage::key`] it identifies the recipient.
    pub position: u32,
    /// The address.
    pub address: EmailAddress,
    /// The work to do.
    pub task: Task,
    /// Notices requested by the sender.
    pub notify: Option<Notify>,
    /// The ORCPT parameter as received.
    pub orcpt: Option<String>,
    /// Number of previous attempts.
    pub attempts: u32,
    /// Whether the sender was notified of the delay.
    pub delay_notified: bool,
    /// Reply of the last attempt.
    pub last_reply: Option<Reply>,
    /// The alias whose member it is.
    pub forwarded_by: Option<EmailAddress>,
    /// Further aliases, and mailboxes with rules, that lead from there to the member.
    pub through: Vec<EmailAddress>,
    /// Whether the sender was notified that a member of this alias failed.
    pub failure_notified: bool,
}

impl QueuedRecipient {
    /// Returns the address that the sender named.
    #[must_use]
    pub fn named(&self) -> &EmailAddress {
        self.forwarded_by.as_ref().unwrap_or(&self.address)
    }

    /// Returns the recipient or member that another server gets the message for.
    pub(crate) fn left_for(&self) -> LeftFor {
        LeftFor::new(self.named(), self.forwarded_by.as_ref().map(|_| &self.address))
    }
}
