//! Outcomes of connections and transactions.

use std::fmt;
use std::time::Duration;

use crate::reply::Reply;

/// Stage of a session: the command that the server refused, or has not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The greeting, before any command.
    Greeting,
    /// EHLO, and HELO after it.
    Hello,
    /// STARTTLS.
    StartTls,
    /// AUTH.
    Auth,
    /// RSET, sent after an unfinished transaction.
    Rset,
    /// MAIL.
    Mail,
    /// RCPT.
    Rcpt,
    /// DATA.
    Data,
    /// The message itself.
    Message,
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Greeting => "the greeting",
            Self::Hello => "EHLO",
            Self::StartTls => "STARTTLS",
            Self::Auth => "AUTH",
            Self::Rset => "RSET",
            Self::Mail => "MAIL",
            Self::Rcpt => "RCPT",
            Self::Data => "DATA",
            Self::Message => "the message",
        })
    }
}

/// Reason of the host to abandon a connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The server closed the connection without a reply.
    #[error("the server closed the connection")]
    Closed,
    /// This time limit passed.
    #[error("timed out after {0:?}")]
    TimedOut(Duration),
    /// The network or TLS failed.
    #[error("{0}")]
    Io(String),
    /// The message cannot be read on this side.
    #[error("the message cannot be read: {0}")]
    Unreadable(String),
    /// The message was cancelled before its first octet was written.
    #[error("the message was withdrawn")]
    Withdrawn,
    /// The server closed the connection, or sent a reply, while it should have waited for the message.
    #[error("the server did not wait for the message")]
    NotAwaited,
}

/// Reason why a connection cannot be used any longer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The TCP connection was not established.
    #[error("cannot connect: {0}")]
    Connect(Cause),
    /// The TLS handshake failed.
    #[error("TLS handshake failed: {0}")]
    Handshake(Cause),
    /// The server refused a command before the transaction.
    #[error("{stage} was refused: {reply}")]
    Refused {
        /// The refused command.
        stage: Stage,
        /// The server's reply.
        reply: Reply,
    },
    /// The server closes the connection (421, RFC 5321 section 3.8).
    #[error("the server is closing the connection: {0}")]
    Closing(Reply),
    /// The server violated the protocol.
    #[error("the server violated the SMTP protocol: {0}")]
    Protocol(&'static str),
    /// TLS is required and not offered.
    #[error("the server does not offer STARTTLS, which is required")]
    TlsNotOffered,
    /// Credentials are configured, but AUTH PLAIN is not offered.
    #[error("the server does not offer AUTH PLAIN")]
    AuthNotOffered,
    /// Credentials are configured, but the connection is not encrypted.
    #[error("the password is not sent without TLS; enable TLS for this server")]
    AuthWithoutTls,
    /// The host abandoned the session.
    #[error("connection lost at {stage}: {cause}")]
    Lost {
        /// The command without a reply.
        stage: Stage,
        /// The reason.
        cause: Cause,
    },
    /// QUIT was sent, or the host dropped a transaction before its end.
    #[error("the connection is closed")]
    Closed,
}

impl Failure {
    /// Returns the server's reply if a reply caused the failure.
    pub fn reply(&self) -> Option<&Reply> {
        match self {
            Self::Refused { reply, .. } | Self::Closing(reply) => Some(reply),
            _ => None,
        }
    }
}

/// Outcome of a transaction for the recipients that were not refused individually.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The server accepted the message with this reply; [`super::queue_id_in`] extracts its queue id.
    Accepted(Reply),
    /// The server refused MAIL, DATA or the message. The client itself refuses with 550 5.6.7 if the message
    /// needs SMTPUTF8 without the server's support, and with 553 if the sender's address is invalid.
    Refused {
        /// The refused command.
        stage: Stage,
        /// The reply.
        reply: Reply,
    },
    /// Every recipient was refused individually.
    NoRecipients,
    /// The connection failed before the final dot was written. The message was not accepted, so a retry
    /// cannot duplicate it.
    Failed(Failure),
    /// The connection failed between the final dot and its reply: the server may have accepted the message
    /// (RFC 1047). A retry may deliver it twice; without one it may be lost.
    OutcomeUnknown(Failure),
}

/// Result of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The reply to each RCPT, in the order of the envelope; `None` if RCPT was not sent or not answered.
    pub rcpt_replies: Vec<Option<Reply>>,
    /// Outcome for all other recipients.
    pub end: End,
}

/// Result of a transaction for one recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecipientOutcome<'a> {
    /// The server accepted the message for this recipient, with this reply to the message.
    Accepted(&'a Reply),
    /// The server refused the recipient or the message, temporarily (4xx) or permanently (5xx).
    Refused(&'a Reply),
    /// Not accepted because the connection failed; a retry is safe.
    Failed(&'a Failure),
    /// Possibly accepted, see [`End::OutcomeUnknown`].
    Unknown(&'a Failure),
}

impl Outcome {
    /// Returns whether the recipient at this place was refused only because the transaction had others before it, so that
    /// the next transaction may follow at once (RFC 5321 section 4.5.3.1.10). If the message was not accepted, none was.
    #[must_use]
    pub fn is_surplus(&self, place: usize) -> bool {
        let Some(Some(reply)) = self.rcpt_replies.get(place) else { return false };
        let is_limit = match reply.enhanced.map(|enhanced| (enhanced.subject, enhanced.detail)) {
            Some((5, 3)) => reply.is_transient(),
            // Without a precise code, 452 in reply to RCPT means this limit.
            None | Some((0, 0)) => reply.code == 452,
            Some(_) => false,
        };
        is_limit && matches!(self.end, End::Accepted(_))
    }

    /// Returns the number of accepted recipients if all those refused for their number come after them: the limit of the
    /// server.
    #[must_use]
    pub fn recipient_limit(&self) -> Option<usize> {
        let first_surplus = (0..self.rcpt_replies.len()).find(|place| self.is_surplus(*place))?;
        let (before, after) = self.rcpt_replies.split_at(first_surplus);
        let accepted = |replies: &[Option<Reply>]| replies.iter().flatten().filter(|reply| reply.is_positive()).count();
        (accepted(after) == 0).then(|| accepted(before))
    }

    /// Returns one verdict for each recipient, in the order of the envelope.
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
            End::NoRecipients => RecipientOutcome::Failed(&Failure::Protocol("missing reply to RCPT")),
        }
    }
}
