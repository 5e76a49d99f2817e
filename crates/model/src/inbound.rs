//! Incoming mail, as reported by the listeners and by the mail server.

use std::net::IpAddr;

use crate::{Authentication, DomainName, EmailAddress, FolderName, QueueId, Reply, Timestamp, named_values};

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

named_values! {
    /// When incoming mail was refused.
    RefusalStage, UnknownRefusalStage, "must be one of rcpt, data" {
        /// In the reply to RCPT: one recipient.
        Recipient = "rcpt",
        /// In the reply to the message: all its recipients.
        Message = "data",
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

/// A message that the mail server delivered to a mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedMail {
    /// Time of delivery.
    pub at: Timestamp,
    /// The address that it was delivered to, possibly with a detail such as `+lists`.
    pub mailbox: EmailAddress,
    /// The address that it was sent to, such as an alias; `None` if it is not known.
    pub recipient: Option<EmailAddress>,
    /// The mail server's queue id.
    pub queue_id: QueueId,
    /// Its Message-ID, if known.
    pub header_id: Option<String>,
    /// Its folder and UID, if known.
    pub place: Option<(FolderName, u32)>,
    /// Results of the checks, if the mail server reports them.
    pub authentication: Option<Authentication>,
}

/// Mail from outside that was refused permanently, for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboundRefusal {
    /// Time of the reply.
    pub at: Timestamp,
    /// The address of the client, if known.
    pub client: Option<IpAddr>,
    /// The reverse-path; `None` if it is null or unknown.
    pub sender: Option<EmailAddress>,
    /// The recipient.
    pub recipient: EmailAddress,
    /// What was refused.
    pub stage: RefusalStage,
    /// The reply.
    pub reply: Reply,
}
