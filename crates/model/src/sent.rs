//! Messages that were sent through the API.

use crate::{
    EmailAddress, EnhancedCode, MessageId, MessageStatus, QueueId, RecipientKind, RecipientStatus, Timestamp, TokenId,
};

/// A message that was sent through the API, as its sender sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentMessage {
    /// Its identifier.
    pub message_id: MessageId,
    /// The token that sent it; none when a log-in of another kind did.
    pub token_id: Option<TokenId>,
    /// The mailbox of that token.
    pub mailbox: Option<EmailAddress>,
    /// The address it was sent from.
    pub from: EmailAddress,
    /// The To recipients.
    pub to: Vec<EmailAddress>,
    /// The subject, decoded.
    pub subject: String,
    /// Its state.
    pub status: MessageStatus,
    /// The mail server's name of it.
    pub queue_id: Option<QueueId>,
    /// When it was stored.
    pub created_at: Timestamp,
    /// When the mail server took it.
    pub submitted_at: Option<Timestamp>,
}

/// What a list shows of a sent message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentSummary {
    /// Its identifier.
    pub message_id: MessageId,
    /// The address it was sent from.
    pub from: EmailAddress,
    /// The To recipients.
    pub to: Vec<EmailAddress>,
    /// The subject, decoded.
    pub subject: String,
    /// Its state.
    pub status: MessageStatus,
    /// When it was stored.
    pub created_at: Timestamp,
    /// When the mail server took it.
    pub submitted_at: Option<Timestamp>,
}

/// What is known of one recipient of a sent message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentRecipient {
    /// Who.
    pub email: EmailAddress,
    /// In which list the sender named it first.
    pub kind: RecipientKind,
    /// Its state.
    pub status: RecipientStatus,
    /// The newest enhanced status code.
    pub dsn: Option<EnhancedCode>,
    /// The newest reply of the next hop, when it was no success.
    pub smtp_response: Option<String>,
    /// When it was delivered.
    pub delivered_at: Option<Timestamp>,
    /// When it bounced.
    pub bounced_at: Option<Timestamp>,
    /// When it last bounced for one of the addresses that stand behind this one (an alias, a forwarding), which is no
    /// bounce of the whole.
    pub partly_bounced_at: Option<Timestamp>,
    /// What was said then.
    pub partly_bounced_response: Option<String>,
    /// How many tries were deferred.
    pub attempts: u32,
    /// When the newest try ended.
    pub last_attempt_at: Option<Timestamp>,
}
