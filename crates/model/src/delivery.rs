//! Reports of mail servers.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::{EmailAddress, MessageId, ReversePath, Timestamp, named_values};

/// An enhanced status code, `class.subject.detail` (RFC 3463).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EnhancedCode {
    /// 2 for success, 4 for a temporary failure, 5 for a permanent one.
    pub class: u8,
    /// The subject, 0 to 999.
    pub subject: u16,
    /// The detail, 0 to 999.
    pub detail: u16,
}

impl EnhancedCode {
    /// Creates a code from its three numbers.
    #[must_use]
    pub const fn new(class: u8, subject: u16, detail: u16) -> Self {
        Self { class, subject, detail }
    }
}

impl fmt::Display for EnhancedCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.class, self.subject, self.detail)
    }
}

/// The text is not an enhanced status code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an enhanced status code, such as 5.1.1")]
pub struct EnhancedCodeError;

impl FromStr for EnhancedCode {
    type Err = EnhancedCodeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |part: Option<&str>| {
            let digits = part.filter(|p| (1..=3).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit()))?;
            digits.parse::<u16>().ok()
        };
        let mut parts = text.split('.');
        let (class, subject, detail) = (number(parts.next()), number(parts.next()), number(parts.next()));
        match (class, subject, detail, parts.next()) {
            (Some(class @ (2 | 4 | 5)), Some(subject), Some(detail), None) => Ok(Self::new(
                if class == 2 {
                    2
                } else if class == 4 {
                    4
                } else {
                    5
                },
                subject,
                detail,
            )),
            _ => Err(EnhancedCodeError),
        }
    }
}

/// An SMTP reply (RFC 5321 section 4.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Three digits.
    pub code: u16,
    /// The enhanced status code, if any.
    pub enhanced: Option<EnhancedCode>,
    /// The text without codes; lines are joined by a space.
    pub text: String,
}

impl Reply {
    /// Creates a reply with an enhanced status code.
    pub fn new(code: u16, enhanced: EnhancedCode, text: impl Into<String>) -> Self {
        Self { code, enhanced: Some(enhanced), text: text.into() }
    }

    /// Returns the enhanced status code, or the undefined status of the reply's class (RFC 3463 section 3.1).
    /// `None` for a reply that is neither a success nor a rejection.
    #[must_use]
    pub fn enhanced_or_class(&self) -> Option<EnhancedCode> {
        let undefined = || match self.code / 100 {
            2 => Some(EnhancedCode::new(2, 0, 0)),
            4 => Some(EnhancedCode::new(4, 0, 0)),
            5 => Some(EnhancedCode::new(5, 0, 0)),
            _ => None,
        };
        self.enhanced.or_else(undefined)
    }

    /// Returns whether the failure is temporary (4yz).
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        self.code / 100 == 4
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.enhanced {
            Some(enhanced) => write!(f, "{} {enhanced} {}", self.code, self.text),
            None => write!(f, "{} {}", self.code, self.text),
        }
    }
}

/// A mail server's queue id. Some servers reuse them, so it is not a unique key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId(pub String);

impl QueueId {
    /// Returns the queue id for a message without one: its message id.
    #[must_use]
    pub fn standing_in(message_id: MessageId) -> Self {
        Self(message_id.to_string())
    }
}

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

named_values! {
    /// State of a recipient in a mail server's queue.
    QueueState, UnknownQueueState, "must be one of queued, active, deferred, held, sent" {
        /// Not attempted yet.
        Queued = "queued",
        /// An attempt is in progress, or its result is not recorded yet.
        Active = "active",
        /// An attempt failed; the next one is scheduled.
        Deferred = "deferred",
        /// Put on hold by the operator: no attempt starts.
        Held = "held",
        /// Delivered; a success notice to the sender is still to be sent.
        Sent = "sent",
    }
}

named_values! {
    /// Outcome of a delivery attempt.
    Outcome, UnknownOutcome, "must be one of sent, deferred, bounced, expired, failed" {
        /// Delivered, or accepted by the next mail server.
        Sent = "sent",
        /// Deferred; the mail server will retry.
        Deferred = "deferred",
        /// Permanently undeliverable.
        Bounced = "bounced",
        /// Undeliverable within the mail server's time limit.
        Expired = "expired",
        /// Rejected temporarily at submission: never accepted, so the mail server does not retry.
        Failed = "failed",
    }
}

named_values! {
    /// What a notice of another server is about, if it changes no status.
    NoticeKind, UnknownNoticeKind, "must be one of delayed, delivered, relayed, expanded, other" {
        /// Delivery is being retried.
        Delayed = "delayed",
        /// The message was delivered.
        Delivered = "delivered",
        /// The message was relayed to a server that sends no notices.
        Relayed = "relayed",
        /// The message was sent to several recipients instead.
        Expanded = "expanded",
        /// Anything else: an answer, or a failure that names no known recipient.
        Other = "other",
    }
}

impl Outcome {
    /// Returns the outcome for a recipient rejected at submission with this reply. Replies 4yz are temporary;
    /// all others are permanent (RFC 5321 section 4.2.1).
    #[must_use]
    pub const fn of_refusal(reply: &Reply) -> Self {
        if reply.is_transient() { Self::Failed } else { Self::Bounced }
    }
}

/// The source of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Evidence {
    /// A report of the mail server itself.
    MailServer,
    /// A delivery status notification received as mail (RFC 3464).
    ReturnedMail,
}

/// What an event applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The recipient that the sender named.
    Recipient,
    /// One address that the recipient expanded to; there may be others.
    Member,
}

/// One delivery event for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryEvent {
    /// Time of the event.
    pub at: Timestamp,
    /// The message id, if the message came through the API.
    pub message_id: Option<MessageId>,
    /// The queue id.
    pub queue_id: QueueId,
    /// The reverse-path.
    pub sender: ReversePath,
    /// The recipient that the sender named.
    pub recipient: EmailAddress,
    /// The final recipient, if it differs (RFC 3464 section 2.3.2): a member of an alias, or the target of a
    /// forwarding.
    pub final_recipient: Option<EmailAddress>,
    /// The outcome of the attempt.
    pub outcome: Outcome,
    /// The source of the event.
    pub evidence: Evidence,
    /// The enhanced status code.
    pub dsn: Option<EnhancedCode>,
    /// The reply of the next hop, or the reason why there was none.
    pub response: String,
    /// The next hop: `host[address]:port`, or the name of the local delivery.
    pub relay: Option<String>,
    /// Time from acceptance to this event.
    pub delay: Duration,
    /// When the next attempt is due, if the mail server reports it. The delivery log does not store it.
    pub next_attempt_at: Option<Timestamp>,
}

impl DeliveryEvent {
    /// The relay in reports of the built-in server about its own mailboxes. No host name contains a slash.
    pub const LOCAL_RELAY: &str = "mailapi/local";

    /// Returns whether the built-in server delivered the message to a mailbox of its own.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.relay.as_deref() == Some(Self::LOCAL_RELAY)
    }

    /// Returns what the event applies to.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        if self.final_recipient.is_some() { Scope::Member } else { Scope::Recipient }
    }
}

/// A stored event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryLogEntry {
    /// Its id, which grows with every event.
    pub id: i64,
    /// The event.
    pub event: DeliveryEvent,
}

/// A position in a feed. Only the feed interprets it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeedCursor(pub String);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_reply_without_enhanced_code_has_the_undefined_one() {
        let status = |code, enhanced| {
            let reply = Reply { code, enhanced, text: "words".to_owned() };
            reply.enhanced_or_class().map(|status| status.to_string())
        };
        assert_eq!(status(354, None), None);
        assert_eq!(status(0, None), None);
        for (code, expected) in [(250, "2.0.0"), (421, "4.0.0"), (550, "5.0.0"), (554, "5.0.0")] {
            assert_eq!(status(code, None).as_deref(), Some(expected));
        }
        assert_eq!(status(550, Some(EnhancedCode::new(5, 1, 1))).as_deref(), Some("5.1.1"));
    }

    proptest! {
        #[test]
        fn any_text_is_an_enhanced_code_or_none(
            text in "[245][.]{1,2}[0-9]{1,4}[.][0-9]{0,4}|[0-9.+ ]{0,12}|\\PC{0,9}",
            (class, subject, detail) in (prop::sample::select(vec![2_u8, 4, 5]), 0_u16..1000, 0_u16..1000),
        ) {
            if let Ok(code) = text.parse::<EnhancedCode>() {
                prop_assert_eq!(code.to_string().parse(), Ok(code));
            }
            let code = EnhancedCode::new(class, subject, detail);
            prop_assert_eq!(code.to_string().parse(), Ok(code));
        }
    }
}
