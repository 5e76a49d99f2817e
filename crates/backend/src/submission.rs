//! Submission of messages to the mail server.

use async_trait::async_trait;
use mailapi_model::{Blob, EmailAddress, Envelope, MessageId, QueueId, Reply, Timestamp};

use crate::{Record, RecordError};

/// Accepts messages for delivery.
#[async_trait]
pub trait Submission: Send + Sync {
    /// Stores the record of `message` (complete, with CRLF line ends) and submits it to the envelope's
    /// recipients.
    ///
    /// `Ok` means that the message is durable at the mail server: callers need no queue of their own. A
    /// rejected recipient does not affect the others. The record is durable no later than the message, and
    /// says that it was submitted.
    ///
    /// # Errors
    /// After any [`SubmitError`] but [`SubmitError::OutcomeUnknown`], the mail server does not have the
    /// message. Its record is stored as pending, except after [`SubmitError::NotRecorded`].
    async fn submit(&self, envelope: Envelope, message: Blob, record: &dyn Record) -> Result<Accepted, SubmitError>;

    /// Returns the result of an earlier [`Submission::submit`] of this message, after a crash or an unknown
    /// outcome. `None` means that the mail server does not have the message and will not accept it any more.
    ///
    /// # Errors
    /// [`SubmitError::Unavailable`] when the mail server cannot be queried at the moment.
    async fn find(&self, attempt: &Attempt) -> Result<Option<Accepted>, SubmitError>;

    /// Checks whether mail can be submitted now; for health checks.
    ///
    /// # Errors
    /// The reason, in a few words.
    async fn check(&self) -> Result<(), String>;
}

/// A submission without a known outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The message id.
    pub message_id: MessageId,
    /// The envelope sender.
    pub sender: EmailAddress,
    /// Start of the submission: the mail server cannot have seen the message before.
    pub since: Timestamp,
    /// Whether this process submitted it, or an ended process on the same data directory. Another node may
    /// still be submitting it.
    pub by_this_node: bool,
}

/// The mail server accepted the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The queue id.
    pub queue_id: QueueId,
    /// The rejected recipients, each with its reply. The others were accepted.
    pub refused: Vec<Refusal>,
}

/// One rejected recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The recipient.
    pub recipient: EmailAddress,
    /// The mail server's reply.
    pub reply: Reply,
}

/// Why a message was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The mail server rejected the message as a whole.
    #[error("the mail server refused the message: {0}")]
    Refused(Reply),
    /// The mail server rejected every recipient.
    #[error("the mail server refused every recipient")]
    NoRecipients(Vec<Refusal>),
    /// The mail server cannot be reached, or cannot work at the moment.
    #[error("the mail server is not available: {0}")]
    Unavailable(String),
    /// The connection ended after the message and before the reply: the mail server may have accepted it.
    #[error("the connection ended before the mail server answered")]
    OutcomeUnknown,
    /// The message's record could not be stored, so nothing was transmitted.
    #[error("the message could not be recorded: {0}")]
    NotRecorded(#[from] RecordError),
}

impl SubmitError {
    /// Returns whether a retry may succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Refused(reply) => reply.is_transient(),
            Self::NoRecipients(refused) => refused.iter().any(|refusal| refusal.reply.is_transient()),
            Self::Unavailable(_) => true,
            Self::NotRecorded(error) => matches!(error, RecordError::Unavailable(_)),
            Self::OutcomeUnknown => false,
        }
    }

    /// Returns the mail server's reply, if any; of several, the first one that a retry may change.
    #[must_use]
    pub fn reply(&self) -> Option<&Reply> {
        match self {
            Self::Refused(reply) => Some(reply),
            Self::NoRecipients(refused) => {
                let replies = || refused.iter().map(|refusal| &refusal.reply);
                replies().find(|reply| reply.is_transient()).or_else(|| replies().next())
            }
            Self::Unavailable(_) | Self::OutcomeUnknown | Self::NotRecorded(_) => None,
        }
    }
}
