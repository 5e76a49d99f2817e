//! Incoming mail, as reported by the listeners.

use crate::{DomainName, Timestamp, named_values};

named_values! {
    /// Outcome of incoming mail for one recipient.
    InboundOutcome, UnknownInboundOutcome, "must be one of accepted, spam, rejected" {
        /// Accepted.
        Accepted = "accepted",
        /// Accepted and marked as spam.
        Spam = "spam",
        /// Rejected during the SMTP session.
        Rejected = "rejected",
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
