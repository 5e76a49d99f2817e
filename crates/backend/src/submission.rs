//! Handing a message over.

use async_trait::async_trait;
use mailapi_model::{EmailAddress, Envelope, MessageId, Octets, QueueId, Reply, Timestamp};

use crate::CommitGate;

/// Takes messages over for delivery.
#[async_trait]
pub trait Submission: Send + Sync {
    /// Hands `message` (complete, with CRLF line ends) over for the envelope's recipients.
    ///
    /// `Ok` means that the message survives a crash of anything from here on: nobody needs a queue in front of this.
    /// One refused recipient never harms the others.
    ///
    /// # Errors
    /// [`SubmitError`] says whether the mail server has the message: it has not, but for
    /// [`SubmitError::OutcomeUnknown`].
    async fn submit(&self, envelope: Envelope, message: Octets) -> Result<Accepted, SubmitError> {
        self.submit_when(envelope, message, CommitGate::opened()).await
    }

    /// The same for a message that is still being stored. What leaves nothing behind at the mail server may be done at
    /// once; no octet of the message is handed over before the `commit_gate`, and none at all without it.
    ///
    /// # Errors
    /// As [`Submission::submit`]; without the `commit_gate` any of them but [`SubmitError::OutcomeUnknown`].
    async fn submit_when(
        &self,
        envelope: Envelope,
        message: Octets,
        commit_gate: CommitGate,
    ) -> Result<Accepted, SubmitError>;

    /// What [`Submission::submit`] answered for this message at an earlier time, when it was taken over; asked after
    /// a crash, or after an unknown outcome. `None` says that the mail server does not have it and never will.
    ///
    /// # Errors
    /// [`SubmitError::Unavailable`] when the mail server cannot tell at the moment.
    async fn find(&self, attempt: &Attempt) -> Result<Option<Accepted>, SubmitError>;

    /// Whether mail could be handed over now; asked by the health check.
    ///
    /// # Errors
    /// Why not, in a few words.
    async fn check(&self) -> Result<(), String>;
}

/// A message that was being handed over when something broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Our identifier.
    pub message_id: MessageId,
    /// Whose message it is: the sender of its envelope.
    pub sender: EmailAddress,
    /// The mail server cannot have seen anything of it before this moment.
    pub since: Timestamp,
    /// Whether it was handed over by this process, or by one on the same data directory that is gone. Another one may
    /// still be at it.
    pub by_this_node: bool,
}

/// The mail server has the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Its name of it.
    pub queue_id: QueueId,
    /// The recipients that it did not take, each with its reply. The others are on their way.
    pub refused: Vec<Refusal>,
}

/// One recipient that the mail server did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Who.
    pub recipient: EmailAddress,
    /// What the mail server said.
    pub reply: Reply,
}

/// Why a message was not taken over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The mail server refused the message as a whole.
    #[error("the mail server refused the message: {0}")]
    Refused(Reply),
    /// The mail server refused every recipient.
    #[error("the mail server refused every recipient")]
    NoRecipients(Vec<Refusal>),
    /// The mail server cannot be reached or cannot work at the moment.
    #[error("the mail server is not available: {0}")]
    Unavailable(String),
    /// The connection ended after the message and before the reply: the mail server may have it or not.
    #[error("the connection ended before the mail server answered")]
    OutcomeUnknown,
}

impl SubmitError {
    /// Nothing was handed over, since nobody said that it may be.
    #[must_use]
    pub fn withdrawn() -> Self {
        Self::Unavailable("the message was withdrawn before it was handed over".to_owned())
    }

    /// Whether another try may help.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Refused(reply) => reply.is_transient(),
            Self::NoRecipients(refused) => refused.iter().any(|refusal| refusal.reply.is_transient()),
            Self::Unavailable(_) => true,
            Self::OutcomeUnknown => false,
        }
    }

    /// The mail server's reply, if it gave one; of several, the first one that a retry may change.
    #[must_use]
    pub fn reply(&self) -> Option<&Reply> {
        match self {
            Self::Refused(reply) => Some(reply),
            Self::NoRecipients(refused) => {
                let replies = || refused.iter().map(|refusal| &refusal.reply);
                replies().find(|reply| reply.is_transient()).or_else(|| replies().next())
            }
            Self::Unavailable(_) | Self::OutcomeUnknown => None,
        }
    }
}
