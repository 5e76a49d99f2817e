//! Checks of mail from outside.

use std::net::IpAddr;

use async_trait::async_trait;
use mailapi_model::{Authentication, Blob};

/// Decides what happens to mail that arrives without a log-in. The product implements it; a listener asks at
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
    /// The header field to prepend, with its line end; empty if the message was not checked.
    pub field: String,
}

impl Judgement {
    /// Returns the judgement of a message that is delivered without checks.
    #[must_use]
    pub const fn unchecked() -> Self {
        Self { action: InboundAction::Deliver, authentication: None, field: String::new() }
    }
}

/// What happens to a message from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InboundAction {
    /// It is delivered to INBOX.
    Deliver,
    /// It is delivered to the folder for junk.
    Junk,
    /// It is refused with this text, in one line of ASCII.
    Refuse(String),
}
