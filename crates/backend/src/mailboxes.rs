//! Reads mailboxes, and stores drafts. Reading changes no flag; only drafts and [`Mailboxes::purge`] change anything.

use std::pin::Pin;
use std::str::FromStr;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use mailapi_model::{Blob, EmailAddress, FolderName, Listed, Page, Quota, Timestamp};

use crate::Validator;

/// A stream of bytes, so that memory use does not grow with the size of the content.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, MailboxError>> + Send>>;

/// Reads mailboxes, and stores drafts.
#[async_trait]
pub trait Mailboxes: Send + Sync {
    /// Returns all folders of a mailbox, INBOX first, the others by name.
    async fn folders(&self, mailbox: &EmailAddress) -> Result<Vec<FolderInfo>, MailboxError>;

    /// Returns one page of a folder, newest (highest UID) first, or [`PageView::Unchanged`] if the caller's
    /// validator `seen` still matches. Comparing the folder's state is enough for that.
    async fn view(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        page: Page,
        seen: Option<Validator>,
    ) -> Result<PageView, MailboxError>;

    /// Returns one page of a folder unconditionally.
    async fn list(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        page: Page,
    ) -> Result<Listed<MessageSummary>, MailboxError> {
        match self.view(mailbox, folder, page, None).await? {
            PageView::Now { listed, .. } => Ok(listed),
            PageView::Unchanged => {
                Err(MailboxError::Unavailable("the backend reported an unchanged page without a validator".into()))
            }
        }
    }

    /// Returns one decoded message, without the content of its attachments.
    async fn read(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32) -> Result<FullMessage, MailboxError>;

    /// Opens one decoded attachment by its index.
    async fn open_attachment(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
        index: u32,
    ) -> Result<OpenedAttachment, MailboxError>;

    /// Opens one message as it was received.
    async fn open_raw(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
    ) -> Result<OpenedMessage, MailboxError>;

    /// Returns the messages that contain a text, newest first.
    async fn search(&self, mailbox: &EmailAddress, query: &SearchQuery) -> Result<Listed<SearchHit>, MailboxError>;

    /// Returns the folder for drafts: the one with the special use `\Drafts` (RFC 6154), else the one named Drafts.
    /// `None` if there is neither.
    async fn drafts_folder(&self, mailbox: &EmailAddress) -> Result<Option<FolderName>, MailboxError>;

    /// Stores a draft with `\Draft` and `\Seen` in the folder for drafts, which is created if it is missing. Then
    /// removes the draft that it replaces, if that is still there.
    async fn save_draft(&self, mailbox: &EmailAddress, draft: NewDraft) -> Result<SavedDraft, MailboxError>;

    /// Permanently removes a message from the folder for drafts. One without `\Draft` stays, and counts as missing.
    async fn delete_draft(&self, mailbox: &EmailAddress, uid: u32) -> Result<(), MailboxError>;

    /// Permanently removes all mail from every folder and resets the used quota to zero. The folders stay.
    async fn purge(&self, mailbox: &EmailAddress) -> Result<Purged, MailboxError>;

    /// Returns the used quota and its limit.
    async fn quota(&self, mailbox: &EmailAddress) -> Result<Quota, MailboxError>;

    /// Returns the quota for a list of many mailboxes. If queries are expensive, the result may be a minute old,
    /// but never older than a change of the mailbox by this backend.
    async fn recent_quota(&self, mailbox: &EmailAddress) -> Result<Quota, MailboxError> {
        self.quota(mailbox).await
    }

    /// Returns the number of messages that background work has left; `None` if the mail server does not say.
    async fn backlog(&self) -> Result<Option<Backlog>, MailboxError> {
        Ok(None)
    }

    /// Returns the imports that run or were interrupted, the latest progress first; none if the mail server imports
    /// itself.
    async fn imports(&self) -> Result<Vec<ImportProgress>, MailboxError> {
        Ok(Vec::new())
    }

    /// Checks whether mailboxes can be read; for health checks.
    ///
    /// # Errors
    /// The reason, in a few words.
    async fn check(&self) -> Result<(), String>;
}

/// Messages that background work has left. Meanwhile they are found and counted as usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Messages that are not in the search index.
    pub to_index: u64,
    /// Messages of emptied mailboxes and deleted folders that still take disk space.
    pub to_remove: u64,
}

/// How far an import of mail is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportProgress {
    /// The mailbox that receives the mail.
    pub mailbox: EmailAddress,
    /// The folder that is being filled.
    pub folder: FolderName,
    /// Messages of this folder that were imported, skipped or refused so far.
    pub done: u64,
    /// Messages of this folder in the source; `None` if the source does not say.
    pub total: Option<u64>,
    /// The time of this state. The import was interrupted if it is long ago.
    pub changed_at: Timestamp,
}

/// Result of a conditional page request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageView {
    /// Unchanged since the given validator.
    Unchanged,
    /// The current page.
    Now {
        /// The page.
        listed: Listed<MessageSummary>,
        /// Its validator, for this page and folder name; `None` if the backend cannot validate it.
        validator: Option<Validator>,
    },
}

/// Why a mailbox could not be read or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MailboxError {
    /// The mailbox does not exist.
    #[error("the mailbox does not exist")]
    NoSuchMailbox,
    /// The folder does not exist.
    #[error("the folder does not exist")]
    NoSuchFolder,
    /// The message does not exist, or no longer.
    #[error("the message does not exist")]
    NoSuchMessage,
    /// The attachment does not exist.
    #[error("the attachment does not exist")]
    NoSuchAttachment,
    /// The message exceeds the quota of the mailbox.
    #[error("the mailbox is full")]
    Full,
    /// The message is larger than the mail server stores.
    #[error("the message is too large")]
    TooLarge,
    /// The mail server cannot be reached, or cannot work at the moment.
    #[error("the mailbox server is not available: {0}")]
    Unavailable(String),
}

/// One folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderInfo {
    /// The name, with `/` between levels.
    pub name: FolderName,
    /// Number of messages.
    pub messages: u64,
    /// Number of messages without `\Seen`.
    pub unread: u64,
    /// Total size of its messages in bytes.
    pub size: u64,
}

/// A person named in a header field, as written there: either part may be empty or invalid.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Correspondent {
    /// The decoded display name.
    pub name: String,
    /// The address.
    pub email: String,
}

/// A message in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageSummary {
    /// Its UID in the folder (RFC 3501 section 2.3.1.1).
    pub uid: u32,
    /// The Message-ID in angle brackets; empty if missing.
    pub message_id: String,
    /// The first author; both parts empty if missing.
    pub from: Correspondent,
    /// The To recipients.
    pub to: Vec<Correspondent>,
    /// The decoded subject, on one line.
    pub subject: String,
    /// The Date field; if it is missing or unreadable, the time of arrival.
    pub date: Timestamp,
    /// Size of the whole message in bytes.
    pub size: u64,
    /// IMAP flags such as `\Seen`.
    pub flags: Vec<String>,
    /// Whether [`FullMessage::attachments`] is not empty.
    pub has_attachments: bool,
    /// The address that it was sent to (RCPT), in lower case; `None` if it is not known.
    pub recipient: Option<String>,
}

/// A decoded message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullMessage {
    /// The fields that lists show.
    pub summary: MessageSummary,
    /// The Cc recipients.
    pub cc: Vec<Correspondent>,
    /// Name and decoded value of each header field. Fields of the same name are joined by a line feed.
    pub headers: Vec<(String, String)>,
    /// The plain-text body, if any.
    pub text: Option<String>,
    /// The HTML body as sent (not sanitised), if any.
    pub html: Option<String>,
    /// Every leaf part except the two bodies.
    pub attachments: Vec<AttachmentInfo>,
}

/// An attachment of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachmentInfo {
    /// Its position among the attachments, from 0.
    pub index: u32,
    /// The decoded file name; derived from index and type if the message has none.
    pub filename: String,
    /// The media type, `type/subtype` in lower case.
    pub content_type: String,
    /// The parameters needed to interpret the content, as they follow the media type in a Content-Type field:
    /// `; charset=utf-8`. Each is a token (RFC 2045 section 5.1); usually there are none.
    pub type_parameters: String,
    /// Size after decoding, in bytes.
    pub size: u64,
    /// The Content-ID without angle brackets.
    pub content_id: Option<String>,
}

/// An opened attachment.
pub struct OpenedAttachment {
    /// Its description.
    pub info: AttachmentInfo,
    /// The decoded content, exactly [`AttachmentInfo::size`] bytes.
    pub content: ByteStream,
}

/// An opened message, as it was received.
pub struct OpenedMessage {
    /// Size of the whole message in bytes.
    pub size: u64,
    /// The content.
    pub content: ByteStream,
}

/// A draft to store.
#[derive(Debug, Clone)]
pub struct NewDraft {
    /// The message, with CRLF line ends.
    pub message: Blob,
    /// Its Message-ID in angle brackets, unique to this version of the draft.
    pub message_id: String,
    /// The UID of the draft that it replaces. Any other message stays.
    pub replaces: Option<u32>,
}

/// Location of a stored draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedDraft {
    /// The folder for drafts.
    pub folder: FolderName,
    /// Its UID there.
    pub uid: u32,
}

/// The folders to search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderScope {
    /// This folder.
    One(FolderName),
    /// All folders.
    All,
}

/// A search text: at least two characters, not all whitespace. An empty text would match every message, and
/// whitespace almost every one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchText(String);

/// The search text is too short or too long, or contains invalid characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 2 to 200 characters, not all whitespace, and no control characters")]
pub struct SearchTextError;

impl SearchText {
    /// Minimum number of characters.
    pub const MIN_CHARACTERS: usize = 2;
    /// Maximum number of characters.
    pub const MAX_CHARACTERS: usize = 200;

    /// Returns the text as given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SearchText {
    type Err = SearchTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = (Self::MIN_CHARACTERS..=Self::MAX_CHARACTERS).contains(&text.chars().count());
        let fits = fits && !text.chars().any(char::is_control) && !crate::mime::fold(text).trim().is_empty();
        fits.then(|| Self(text.to_owned())).ok_or(SearchTextError)
    }
}

/// A search for a substring, ignoring case, in the decoded subject, From, To, Cc and body text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuery {
    /// The text.
    pub text: SearchText,
    /// The folders.
    pub scope: FolderScope,
    /// The page of the result.
    pub page: Page,
}

/// A message that matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// Its UID in the folder.
    pub uid: u32,
    /// Its folder.
    pub folder: FolderName,
    /// The first author.
    pub from: Correspondent,
    /// The subject.
    pub subject: String,
    /// The Date field, or the time of arrival.
    pub date: Timestamp,
    /// At most 200 characters of plain text around the first match, on one line.
    pub snippet: String,
}

/// Result of a purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purged {
    /// Number of folders, including those that were already empty.
    pub folders: u64,
    /// Number of removed messages.
    pub messages: u64,
}
