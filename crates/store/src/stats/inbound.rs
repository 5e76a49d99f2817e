//! Mail from outside, as the listeners tell of it.

use std::str::FromStr;

use mailapi_model::{DomainName, Timestamp};

use super::Stats;
use crate::StoreError;
use crate::db::Stmt;

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
    const ALL: [Self; 3] = [Self::Accepted, Self::Spam, Self::Rejected];

    /// The name in the database.
    const fn as_str(self) -> &'static str {
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
pub struct UnknownOutcome;

impl FromStr for InboundOutcome {
    type Err = UnknownOutcome;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == text).ok_or(UnknownOutcome)
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

impl Stats<'_> {
    /// Notes mail from outside, all or nothing; the next roll-up counts it.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn record_inbound(&self, events: &[InboundEvent]) -> Result<(), StoreError> {
        if events.is_empty() {
            return Ok(());
        }
        self.0.batch(events.iter().map(insert_event).collect()).await.map(drop)
    }
}

fn insert_event(event: &InboundEvent) -> Stmt {
    Stmt::new("INSERT INTO inbound_mail (at, domain, sender_domain, outcome) VALUES ($1, $2, $3, $4)")
        .bind(event.at)
        .bind(&event.domain)
        .bind(event.sender_domain.as_ref())
        .bind(event.outcome.as_str())
}
