//! Incoming mail, as reported by the listeners.

use std::str::FromStr;

use crate::{DomainName, Timestamp};

/// Outcome of incoming mail for one recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InboundOutcome {
    /// Accepted.
    Accepted,
    /// Accepted and marked as spam.
    Spam,
    /// Rejected during the SMTP session.
    Rejected,
}

impl InboundOutcome {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Accepted, Self::Spam, Self::Rejected];

    /// Returns the name in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Spam => "spam",
            Self::Rejected => "rejected",
        }
    }
}

/// The text is not an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be one of accepted, spam, rejected")]
pub struct UnknownInboundOutcome;

impl FromStr for InboundOutcome {
    type Err = UnknownInboundOutcome;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == text).ok_or(UnknownInboundOutcome)
    }
}

/// Incoming mail for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboundEvent {
    /// Time of arrival.
    pub at: Timestamp,
    /// The recipient's domain, which is hosted here.
    pub domain: DomainName,
    /// The domain of the reverse-path; `None` for the null reverse-path (RFC 5321 section 4.5.5).
    pub sender_domain: Option<DomainName>,
    /// The outcome.
    pub outcome: InboundOutcome,
}
