//! The SMTP envelope: sender and recipients of a message (RFC 5321 section 2.3.1).

use crate::{EmailAddress, MessageId};

/// The address for bounces. `None` is the null reverse-path of a bounce itself (RFC 5321 section 4.5.5).
pub type ReversePath = Option<EmailAddress>;

/// The envelope of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The message id, for finding the message at the mail server after a crash.
    pub message_id: MessageId,
    /// The reverse-path.
    pub sender: ReversePath,
    /// The recipients, without repetitions.
    pub recipients: Vec<EmailAddress>,
}
