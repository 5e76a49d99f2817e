//! Mail from outside, as the doors tell of it.

use std::str::FromStr;

use crate::{DomainName, Timestamp};

/// How mail from outside was received for one recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InboundOutcome {
    /// Taken in.
    Accepted,
    /// Taken in, and marked as spam.
    Spam,
    /// Refused while the other server was still connected.
    Rejected,
}

impl InboundOutcome {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Accepted, Self::Spam, Self::Rejected];

    /// The name in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Spam => "spam",
            Self::Rejected => "rejected",
        }
    }
}

/// A name that is no outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be one of accepted, spam, rejected")]
pub struct UnknownInboundOutcome;

impl FromStr for InboundOutcome {
    type Err = UnknownInboundOutcome;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == text).ok_or(UnknownInboundOutcome)
    }
}

/// Mail from outside for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboundEvent {
    /// When it came.
    pub at: Timestamp,
    /// The recipient's domain, one of ours.
    pub domain: DomainName,
    /// The domain of the reverse-path; none for the null one (RFC 5321 section 4.5.5).
    pub sender_domain: Option<DomainName>,
    /// What was done with it.
    pub outcome: InboundOutcome,
}
