//! The envelope: who hands a message over and for whom (RFC 5321 section 2.3.1).

use crate::{EmailAddress, MessageId};

/// Where a bounce goes. `None` is the null reverse-path of a bounce itself (RFC 5321 section 4.5.5).
pub type ReversePath = Option<EmailAddress>;

/// What a mail server is told besides the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// Our identifier of the message, by which the mail server's side is found again after a crash.
    pub message_id: MessageId,
    /// The reverse-path.
    pub sender: ReversePath,
    /// Each recipient once.
    pub recipients: Vec<EmailAddress>,
}
