//! Mail that mail programs submit with a login, as the mail server reports it.

use crate::{DeliveryEvent, EmailAddress, QueueId, Timestamp};

/// A message that a mail program submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmittedMail {
    /// The mailbox that logged in.
    pub mailbox: EmailAddress,
    /// The author's address, for which the mailbox may send.
    pub from: EmailAddress,
    /// The mail server's queue id.
    pub queue_id: QueueId,
    /// When the mail server accepted it.
    pub accepted_at: Timestamp,
}

/// A report about a message that a mail program submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmittedReport {
    /// The message.
    pub mail: SubmittedMail,
    /// What is reported.
    pub fact: SubmittedFact,
}

/// What is reported about a message that a mail program submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubmittedFact {
    /// The message is durable at the mail server.
    Accepted {
        /// The accepted recipients.
        recipients: Vec<EmailAddress>,
        /// Length in bytes.
        size: u64,
    },
    /// Delivery to one recipient was attempted.
    Attempted {
        /// The outcome.
        report: Box<DeliveryEvent>,
        /// Number of earlier attempts.
        attempts: u32,
        /// Whether the recipient is a mailbox of this server.
        is_mailbox: bool,
    },
}
