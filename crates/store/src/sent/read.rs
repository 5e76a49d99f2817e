//! Reads sent messages.

use mailapi_model::{
    EmailAddress, Listed, MessageId, MessageStatus, Page, QueueId, SentMessage, SentRecipient, SentSummary, Timestamp,
    TokenId,
};

use super::Sent;
use crate::StoreError;
use crate::db::{Filter, List, Row, Stmt, Value};

/// A sent message with its recipients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentRecord {
    /// The message.
    pub message: SentMessage,
    /// Its recipients, in the order of the request.
    pub recipients: Vec<SentRecipient>,
}

/// A message whose submission has no recorded outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingMessage {
    /// The message id.
    pub message_id: MessageId,
    /// The From address.
    pub from: EmailAddress,
    /// When it was stored.
    pub created_at: Timestamp,
    /// The name of the data directory of the submitting process, if recorded.
    pub node: Option<String>,
}

/// The owner of the messages to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SentOwner {
    /// All owners.
    All,
    /// All tokens of this mailbox.
    Mailbox(EmailAddress),
    /// This token.
    Token(TokenId),
}

/// Which messages to list; `None` means no condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentFilter {
    /// The owner.
    pub owner: SentOwner,
    /// Only messages since the owner exists, which leaves out those of an earlier owner of the address.
    pub owner_since: Option<Timestamp>,
    /// Only messages with this status.
    pub status: Option<MessageStatus>,
    /// Only messages from this address.
    pub from: Option<EmailAddress>,
    /// Only messages to this address, as To, Cc or Bcc.
    pub recipient: Option<EmailAddress>,
    /// Only messages stored at this time or later.
    pub start: Option<Timestamp>,
    /// Only messages stored before this time.
    pub end: Option<Timestamp>,
}

impl SentFilter {
    /// Returns a filter for all messages of `owner`.
    #[must_use]
    pub const fn of(owner: SentOwner) -> Self {
        Self { owner, owner_since: None, status: None, from: None, recipient: None, start: None, end: None }
    }
}

const MESSAGE: &str = "SELECT message_id, token_id, mailbox, mailbox_given, sender, sender_given, to_list, subject, status, \
                       queue_id, created_at, submitted_at FROM sent_messages WHERE message_id = $1";

const RECIPIENTS: &str = "SELECT position, email, email_given, kind, status, dsn, smtp_response, delivered_at, bounced_at, \
                          attempts, last_attempt_at, partly_bounced_at, partly_bounced_response FROM sent_recipients \
                          WHERE sent_id = (SELECT id FROM sent_messages WHERE message_id = $1)";

pub(crate) const SENT: List = List {
    table: "sent_messages",
    key: "id",
    order: "created_at DESC, id DESC",
    columns: "message_id, sender, sender_given, to_list, subject, status, created_at, submitted_at",
};

impl Sent<'_> {
    /// Returns the message with this id.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn get(&self, message_id: MessageId) -> Result<Option<SentRecord>, StoreError> {
        let message = (Stmt::new(MESSAGE).bind(message_id), read_message);
        let recipients = (Stmt::new(RECIPIENTS).bind(message_id), read_recipient);
        let (messages, mut recipients) = self.0.read_both(message, recipients).await?;
        // Most messages have one recipient; sorting in the engine would cost more for each of them.
        recipients.sort_unstable_by_key(|(position, _)| *position);
        let recipients = recipients.into_iter().map(|(_, recipient)| recipient).collect();
        Ok(messages.into_iter().next().map(|message| SentRecord { message, recipients }))
    }

    /// Returns a page of the messages, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(&self, filter: &SentFilter, page: Page) -> Result<Listed<SentSummary>, StoreError> {
        let conditions = conditions(filter);
        match counted(filter) {
            Some(total) if page.offset() <= SHORT_OFFSET => {
                SENT.short_page(self.0, total, conditions, page, read_summary).await
            }
            _ => SENT.page(self.0, conditions, page, read_summary).await,
        }
    }
}

/// Largest offset for which walking the index is cheaper than collecting keys.
const SHORT_OFFSET: u64 = 1000;

/// Returns a query for the total from the maintained counts; `None` if only counting rows can answer.
/// Messages of an earlier owner, usually none, are subtracted.
pub(crate) fn counted(filter: &SentFilter) -> Option<Stmt> {
    let SentFilter { owner, owner_since, status: None, from: None, recipient: None, start: None, end: None } = filter
    else {
        return None;
    };
    let count = "SELECT CAST(COALESCE(SUM(messages), 0) AS BIGINT)";
    let of_scope = "FROM sent_counts WHERE scope = $1";
    match (owner, owner_since) {
        (SentOwner::All, None) => Some(Stmt::new(format!("{count} {of_scope}")).bind("")),
        (SentOwner::Mailbox(mailbox), None) => Some(Stmt::new(format!("{count} {of_scope}")).bind(mailbox)),
        (SentOwner::Mailbox(mailbox), Some(since)) => {
            let before = "(SELECT COUNT(*) FROM sent_messages WHERE mailbox = $1 AND created_at < $2)";
            Some(Stmt::new(format!("{count} - {before} {of_scope}")).bind(mailbox).bind(*since))
        }
        (SentOwner::All, Some(_)) | (SentOwner::Token(_), _) => None,
    }
}

pub(crate) fn conditions(filter: &SentFilter) -> Filter {
    let (mailbox, token) = match &filter.owner {
        SentOwner::All => (None, None),
        SentOwner::Mailbox(email) => (Some(email), None),
        SentOwner::Token(id) => (None, Some(*id)),
    };
    Filter::all()
        .when("token_id = ?", token)
        .equal([
            ("mailbox", mailbox.map(Value::from)),
            ("sender", filter.from.as_ref().map(Value::from)),
            ("status", filter.status.map(Value::from)),
        ])
        .when("id IN (SELECT sent_id FROM sent_recipients WHERE email = ?)", filter.recipient.as_ref())
        .when("created_at >= ?", filter.start.max(filter.owner_since))
        .when("created_at < ?", filter.end)
}

fn read_message(mut row: Row) -> Result<SentMessage, StoreError> {
    Ok(SentMessage {
        message_id: row.parsed()?,
        token_id: row.int_or_null()?.map(TokenId),
        mailbox: row.address_or_null()?,
        from: row.address()?,
        to: row.addresses()?,
        subject: row.text()?,
        status: row.parsed()?,
        queue_id: row.text_or_null()?.map(QueueId),
        created_at: row.time()?,
        submitted_at: row.time_or_null()?,
    })
}

fn read_summary(mut row: Row) -> Result<SentSummary, StoreError> {
    Ok(SentSummary {
        message_id: row.parsed()?,
        from: row.address()?,
        to: row.addresses()?,
        subject: row.text()?,
        status: row.parsed()?,
        created_at: row.time()?,
        submitted_at: row.time_or_null()?,
    })
}

/// Reads a recipient and its position in the request.
fn read_recipient(mut row: Row) -> Result<(i64, SentRecipient), StoreError> {
    let position = row.int()?;
    let recipient = SentRecipient {
        email: row.address()?,
        kind: row.parsed()?,
        status: row.parsed()?,
        dsn: row.parsed_or_null()?,
        smtp_response: row.text_or_null()?,
        delivered_at: row.time_or_null()?,
        bounced_at: row.time_or_null()?,
        attempts: u32::try_from(row.unsigned()?).unwrap_or(u32::MAX),
        last_attempt_at: row.time_or_null()?,
        partly_bounced_at: row.time_or_null()?,
        partly_bounced_response: row.text_or_null()?,
    };
    Ok((position, recipient))
}

pub(super) fn read_pending(mut row: Row) -> Result<PendingMessage, StoreError> {
    Ok(PendingMessage {
        message_id: row.parsed()?,
        from: row.address()?,
        created_at: row.time()?,
        node: row.text_or_null()?,
    })
}
