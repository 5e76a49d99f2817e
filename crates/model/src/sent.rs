//! Messages sent through the API.

use crate::{
    EmailAddress, EnhancedCode, MessageId, MessageStatus, QueueId, RecipientKind, RecipientStatus, Timestamp, TokenId,
};

/// A message sent through the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentMessage {
    /// The message id.
    pub message_id: MessageId,
    /// The token that sent it; `None` if it was sent without one.
    pub token_id: Option<TokenId>,
    /// The mailbox of that token.
    pub mailbox: Option<EmailAddress>,
    /// The From address.
    pub from: EmailAddress,
    /// The To recipients.
    pub to: Vec<EmailAddress>,
    /// The decoded subject.
    pub subject: String,
    /// Its status.
    pub status: MessageStatus,
    /// The queue id.
    pub queue_id: Option<QueueId>,
    /// When it was stored.
    pub created_at: Timestamp,
    /// When the mail server accepted it.
    pub submitted_at: Option<Timestamp>,
}

/// A sent message in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentSummary {
    /// The message id.
    pub message_id: MessageId,
    /// The From address.
    pub from: EmailAddress,
    /// The To recipients.
    pub to: Vec<EmailAddress>,
    /// The decoded subject.
    pub subject: String,
    /// Its status.
    pub status: MessageStatus,
    /// When it was stored.
    pub created_at: Timestamp,
    /// When the mail server accepted it.
    pub submitted_at: Option<Timestamp>,
}

/// One recipient of a sent message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentRecipient {
    /// The address.
    pub email: EmailAddress,
    /// The list in which the sender named it first.
    pub kind: RecipientKind,
    /// Its status.
    pub status: RecipientStatus,
    /// The latest enhanced status code.
    pub dsn: Option<EnhancedCode>,
    /// The latest reply of the next hop, unless it was a success.
    pub smtp_response: Option<String>,
    /// When the message was delivered.
    pub delivered_at: Option<Timestamp>,
    /// When the message bounced.
    pub bounced_at: Option<Timestamp>,
    /// When it last bounced for one of the addresses that this one expanded to (an alias, a forwarding). That
    /// is not a bounce of the recipient.
    pub partly_bounced_at: Option<Timestamp>,
    /// The reply at that time.
    pub partly_bounced_response: Option<String>,
    /// Number of deferred attempts.
    pub attempts: u32,
    /// Time of the latest attempt.
    pub last_attempt_at: Option<Timestamp>,
}
