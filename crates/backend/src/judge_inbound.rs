//! Checks of mail from outside.

use std::net::IpAddr;

use async_trait::async_trait;
use mailapi_model::{Authentication, Blob, EmailAddress, QueueId, SecurityMark};

/// Decides what happens to mail that arrives without a login. The product implements it; a listener asks at
/// the end of each message, before it accepts the message.
#[async_trait]
pub trait JudgeInbound: Send + Sync {
    /// Checks a message. It always answers: what cannot be checked is accepted.
    async fn judge(&self, mail: InboundMail<'_>) -> Judgement;
}

/// A message from outside, as it was received.
#[derive(Debug, Clone)]
pub struct InboundMail<'a> {
    /// The name of this server in the results.
    pub hostname: &'a str,
    /// The address of the client.
    pub client: IpAddr,
    /// The name that the client gave in EHLO or HELO.
    pub client_name: &'a str,
    /// The reverse-path as given, which may be no valid address; empty for the null reverse-path.
    pub sender: &'a str,
    /// The recipients here.
    pub recipients: &'a [EmailAddress],
    /// The queue id that the message gets if it is accepted.
    pub queue_id: &'a QueueId,
    /// The message, before this server changes its header.
    pub message: Blob,
}

/// The decision about a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// What happens to the message.
    pub action: InboundAction,
    /// The results; `None` if the message was not checked.
    pub authentication: Option<Authentication>,
    /// What the security analysis found; `None` if the message was not analyzed.
    pub security: Option<SecurityMark>,
    /// The header fields to prepend, each with its line end; empty if the message was not checked.
    pub fields: String,
    /// Names of further fields that only this server may write in the message: those that arrived are removed.
    pub own_fields: Vec<&'static str>,
}

impl Judgement {
    /// Returns the judgement of a message that is delivered without checks.
    #[must_use]
    pub const fn unchecked() -> Self {
        Self {
            action: InboundAction::Deliver,
            authentication: None,
            security: None,
            fields: String::new(),
            own_fields: Vec::new(),
        }
    }
}

/// What happens to a message from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InboundAction {
    /// It is delivered to INBOX.
    Deliver,
    /// It is delivered to the folder for junk.
    Junk,
    /// It is refused for now with this text, in one line of ASCII; the client may try again.
    Defer(String),
    /// It is refused with this text, in one line of ASCII.
    Refuse(String),
}
