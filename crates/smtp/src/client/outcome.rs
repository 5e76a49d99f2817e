//! How a connection or a transaction ended.

use std::fmt;

use crate::reply::Reply;

/// What a server was asked when it refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The connection as such: the answer is the greeting.
    Connect,
    /// EHLO, and HELO after it.
    Hello,
    /// STARTTLS.
    StartTls,
    /// AUTH.
    Auth,
    /// RSET, sent when an earlier transaction was left open.
    Rset,
    /// MAIL.
    Mail,
    /// DATA.
    Data,
    /// The message itself.
    Message,
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Connect => "the connection",
            Self::Hello => "EHLO",
            Self::StartTls => "STARTTLS",
            Self::Auth => "AUTH",
            Self::Rset => "RSET",
            Self::Mail => "MAIL",
            Self::Data => "DATA",
            Self::Message => "the message",
        })
    }
}

/// Why a connection cannot be used, or not any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The server refused to go on before any transaction.
    #[error("{stage} was refused: {reply}")]
    Refused {
        /// What it refused.
        stage: Stage,
        /// Its reply.
        reply: Reply,
    },
    /// The server closes the connection (421, RFC 5321 section 3.8).
    #[error("the server closes the connection: {0}")]
    Closing(Reply),
    /// The server said something that SMTP does not allow at this place.
    #[error("the server does not keep to the protocol: {0}")]
    Protocol(&'static str),
    /// TLS is required and not offered.
    #[error("the server does not offer STARTTLS, which is required")]
    TlsNotOffered,
    /// We have credentials, but AUTH PLAIN is not offered.
    #[error("the server does not offer AUTH PLAIN")]
    AuthNotOffered,
    /// We have credentials, but would have to send them in the clear.
    #[error("the password would be sent without TLS")]
    AuthWithoutTls,
    /// The connection broke, or the host gave it up; the text says how.
    #[error("the connection was lost: {0}")]
    Lost(String),
}

impl Failure {
    /// The server's reply, when it was one that brought the failure.
    pub fn reply(&self) -> Option<&Reply> {
        match self {
            Self::Refused { reply, .. } | Self::Closing(reply) => Some(reply),
            _ => None,
        }
    }

    /// Whether another attempt may succeed. Only a 5xx reply says that it will not.
    pub fn is_transient(&self) -> bool {
        !self.reply().is_some_and(Reply::is_permanent)
    }
}

/// How a transaction ended for the recipients that were not refused on their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The server has taken the message, with this reply; [`super::queue_id_in`] finds its queue id.
    Accepted(Reply),
    /// The server has refused MAIL, DATA or the message. Also 550 5.6.7 of our own when the message needs
    /// SMTPUTF8 and the server does not have it, and 553 of our own for a sender that is no address.
    Refused {
        /// What was refused.
        stage: Stage,
        /// The reply that refused it.
        reply: Reply,
    },
    /// Every recipient was refused on its own.
    NoRecipients,
    /// The connection failed before the final dot was written: the message was not taken, and sending it
    /// again cannot double it.
    Failed(Failure),
    /// The connection failed between the final dot and its reply: the server may have taken the message
    /// (RFC 1047). Sending it again may deliver it twice, not sending it may lose it.
    OutcomeUnknown(Failure),
}

/// The result of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The reply to each RCPT, in the order of the envelope; `None` where none was sent or answered.
    pub rcpt_replies: Vec<Option<Reply>>,
    /// How it ended.
    pub end: End,
}

/// What a transaction means for one recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecipientOutcome<'a> {
    /// The server took the message for it; the reply is the one to the message.
    Accepted(&'a Reply),
    /// The server refused it, for now (4xx) or for good (5xx).
    Refused(&'a Reply),
    /// Not taken for want of a connection; try again.
    Failed(&'a Failure),
    /// Taken or not, see [`End::OutcomeUnknown`].
    Unknown(&'a Failure),
}

impl Outcome {
    /// One verdict for each recipient, in the order of the envelope.
    pub fn recipient_outcomes(&self) -> impl Iterator<Item = RecipientOutcome<'_>> {
        self.rcpt_replies.iter().map(|reply| self.recipient_outcome(reply.as_ref()))
    }

    fn recipient_outcome<'a>(&'a self, rcpt_reply: Option<&'a Reply>) -> RecipientOutcome<'a> {
        if let Some(reply) = rcpt_reply.filter(|reply| !reply.is_positive()) {
            return RecipientOutcome::Refused(reply);
        }
        match &self.end {
            End::Accepted(reply) => RecipientOutcome::Accepted(reply),
            End::Refused { reply, .. } => RecipientOutcome::Refused(reply),
            End::Failed(failure) => RecipientOutcome::Failed(failure),
            End::OutcomeUnknown(failure) => RecipientOutcome::Unknown(failure),
            End::NoRecipients => RecipientOutcome::Failed(&Failure::Protocol("a recipient has no reply")),
        }
    }
}
