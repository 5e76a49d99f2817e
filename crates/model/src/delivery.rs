//! What mail servers report.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::{EmailAddress, MessageId, ReversePath, Timestamp};

/// An enhanced status code, `class.subject.detail` (RFC 3463).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EnhancedCode {
    /// 2 success, 4 for now, 5 for good.
    pub class: u8,
    /// What it is about; 0 to 999.
    pub subject: u16,
    /// What of it; 0 to 999.
    pub detail: u16,
}

impl EnhancedCode {
    /// A code from its three numbers.
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

/// A text that is no enhanced status code.
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
    /// The enhanced status code, when the server gave one.
    pub enhanced: Option<EnhancedCode>,
    /// The text without codes; lines joined by a space.
    pub text: String,
}

impl Reply {
    /// A reply with an enhanced status code.
    pub fn new(code: u16, enhanced: EnhancedCode, text: impl Into<String>) -> Self {
        Self { code, enhanced: Some(enhanced), text: text.into() }
    }

    /// The enhanced status code; for a reply without one the undefined status of its class (RFC 3463 section 3.1). None
    /// for a reply that is neither a success nor a refusal.
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

    /// Whether the server says that another try may help (4yz).
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

/// The name that a mail server gave a message in its queue. Some servers use a name again: never a key by itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId(pub String);

impl QueueId {
    /// The queue id of a message to which the mail server gave none: the message identifier.
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

/// How one try at a recipient ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Delivered, or taken over by the next mail server.
    Sent,
    /// Not yet; the mail server will try again.
    Deferred,
    /// Given back for good.
    Bounced,
    /// Given back because it could not be delivered in time.
    Expired,
    /// Refused temporarily at submission: never handed over, so the mail server does not retry.
    Failed,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Sent, Self::Deferred, Self::Bounced, Self::Expired, Self::Failed];

    /// The outcome for a recipient that was refused at submission with this reply. 4yz replies are temporary; all
    /// others are final (RFC 5321 section 4.2.1).
    #[must_use]
    pub const fn of_refusal(reply: &Reply) -> Self {
        if reply.is_transient() { Self::Failed } else { Self::Bounced }
    }

    /// The name on the wire and in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Deferred => "deferred",
            Self::Bounced => "bounced",
            Self::Expired => "expired",
            Self::Failed => "failed",
        }
    }
}

/// A name that is no outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be one of sent, deferred, bounced, expired, failed")]
pub struct UnknownOutcome;

impl FromStr for Outcome {
    type Err = UnknownOutcome;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == text).ok_or(UnknownOutcome)
    }
}

/// How we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Evidence {
    /// Our mail server's own word.
    MailServer,
    /// A delivery status notification that came back as a mail (RFC 3464).
    ReturnedMail,
}

/// Whom an event speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// For the recipient that the sender named.
    Recipient,
    /// For one of the addresses that stand behind that recipient, of which there may be more.
    Member,
}

/// One fact about one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryEvent {
    /// When it happened.
    pub at: Timestamp,
    /// Our identifier, when the message came through the API.
    pub message_id: Option<MessageId>,
    /// The mail server's name of the message.
    pub queue_id: QueueId,
    /// The reverse-path.
    pub sender: ReversePath,
    /// The recipient that the sender named.
    pub recipient: EmailAddress,
    /// The address that was tried in place of the recipient, where it is another one (RFC 3464 section 2.3.2): a member
    /// of an alias, the target of a forwarding.
    pub final_recipient: Option<EmailAddress>,
    /// How the try ended.
    pub outcome: Outcome,
    /// How we know.
    pub evidence: Evidence,
    /// The enhanced status code.
    pub dsn: Option<EnhancedCode>,
    /// What the next hop said, or why there was none.
    pub response: String,
    /// The next hop: `host[address]:port`, or the name of the local delivery.
    pub relay: Option<String>,
    /// From acceptance to this event.
    pub delay: Duration,
}

impl DeliveryEvent {
    /// Whom it speaks for.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        if self.final_recipient.is_some() { Scope::Member } else { Scope::Recipient }
    }
}

/// One event as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryLogEntry {
    /// Its number; grows with every event.
    pub id: i64,
    /// The event.
    pub event: DeliveryEvent,
}

/// How far a feed has been read. What is in it is the feed's own affair.
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
