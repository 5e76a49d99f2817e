//! Reading mailboxes. Nothing here changes a flag; only [`Mailboxes::purge`] changes anything.

use std::pin::Pin;
use std::str::FromStr;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use mailapi_model::{EmailAddress, FolderName, Listed, Page, Quota, Timestamp};

/// Octets as they come, so that memory does not grow with what is read.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, MailboxError>> + Send>>;

/// Reads mailboxes.
#[async_trait]
pub trait Mailboxes: Send + Sync {
    /// All folders of a mailbox, INBOX first, the others by name.
    async fn folders(&self, mailbox: &EmailAddress) -> Result<Vec<FolderInfo>, MailboxError>;

    /// One page of a folder, newest (highest UID) first, for whoever may still have what was listed when it had the mark
    /// `seen`: a look at the folder is enough when that is what would be listed now. Without a mark it is listed.
    async fn view(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        page: Page,
        seen: Option<Validator>,
    ) -> Result<PageView, MailboxError>;

    /// The same for whoever has seen nothing.
    async fn list(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        page: Page,
    ) -> Result<Listed<MessageSummary>, MailboxError> {
        match self.view(mailbox, folder, page, None).await? {
            PageView::Now { listed, .. } => Ok(listed),
            PageView::Unchanged => Err(MailboxError::Unavailable("a page was called unchanged without a mark".into())),
        }
    }

    /// One message, decoded, without the octets of its attachments.
    async fn read(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32) -> Result<FullMessage, MailboxError>;

    /// One attachment by its index, decoded.
    async fn open_attachment(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
        index: u32,
    ) -> Result<OpenedAttachment, MailboxError>;

    /// One message as it was received.
    async fn open_raw(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
    ) -> Result<OpenedMessage, MailboxError>;

    /// The messages that contain a text, newest first.
    async fn search(&self, mailbox: &EmailAddress, query: &SearchQuery) -> Result<Listed<SearchHit>, MailboxError>;

    /// Removes all mail of every folder for good and sets the quota's use to zero. The folders stay.
    async fn purge(&self, mailbox: &EmailAddress) -> Result<Purged, MailboxError>;

    /// How much the mailbox holds.
    async fn quota(&self, mailbox: &EmailAddress) -> Result<Quota, MailboxError>;

    /// The same for a list of many mailboxes. Where each question costs a server work, the answer may be a minute old; it
    /// is never older than a change of the mailbox by this backend.
    async fn recent_quota(&self, mailbox: &EmailAddress) -> Result<Quota, MailboxError> {
        self.quota(mailbox).await
    }

    /// Whether mailboxes could be read now; asked by the health check.
    ///
    /// # Errors
    /// Why not, in a few words.
    async fn check(&self) -> Result<(), String>;
}

/// Tells what was listed at one time from what is listed at another. Two answers of one backend about the same page of
/// a folder of the same name hold the same when they have the same mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validator([u64; 2]);

impl Validator {
    /// A mark of these two numbers, whatever they mean to the backend that gives it.
    #[must_use]
    pub const fn new(numbers: [u64; 2]) -> Self {
        Self(numbers)
    }
}

/// A page of a folder, for whoever may have seen it already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageView {
    /// It is as it was when it had the mark that was asked with.
    Unchanged,
    /// It is like this now.
    Now {
        /// The page.
        listed: Listed<MessageSummary>,
        /// Its mark; none when the backend cannot tell it from another.
        validator: Option<Validator>,
    },
}

/// Why a mailbox could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MailboxError {
    /// There is no such mailbox.
    #[error("the mailbox does not exist")]
    NoSuchMailbox,
    /// The mailbox has no such folder.
    #[error("the folder does not exist")]
    NoSuchFolder,
    /// The folder has no such message (any more).
    #[error("the message does not exist")]
    NoSuchMessage,
    /// The message has no such attachment.
    #[error("the attachment does not exist")]
    NoSuchAttachment,
    /// The mail server cannot be reached or cannot work at the moment.
    #[error("the mailbox server is not available: {0}")]
    Unavailable(String),
}

/// One folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderInfo {
    /// Its name, `/` between levels.
    pub name: FolderName,
    /// How many messages it holds.
    pub messages: u64,
    /// How many of them are not `\Seen`.
    pub unread: u64,
    /// Octets of all its messages.
    pub size: u64,
}

/// Somebody named in a header, as the header names them: either part may be empty or no valid address at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Correspondent {
    /// The display name, decoded.
    pub name: String,
    /// The address.
    pub email: String,
}

/// A message in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageSummary {
    /// Its number in the folder (RFC 3501 section 2.3.1.1).
    pub uid: u32,
    /// Its Message-ID header in angle brackets; empty when it has none.
    pub message_id: String,
    /// The first author; both parts empty when there is none.
    pub from: Correspondent,
    /// To.
    pub to: Vec<Correspondent>,
    /// The subject, decoded, on one line.
    pub subject: String,
    /// The Date header; when that is missing or unreadable, the time of arrival.
    pub date: Timestamp,
    /// Octets of the whole message.
    pub size: u64,
    /// IMAP flags: `\Seen` and others.
    pub flags: Vec<String>,
    /// Whether [`FullMessage::attachments`] is not empty.
    pub has_attachments: bool,
}

/// A message that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullMessage {
    /// What a listing shows of it.
    pub summary: MessageSummary,
    /// Cc.
    pub cc: Vec<Correspondent>,
    /// Name and decoded value of each header; several of one name are joined by a line feed.
    pub headers: Vec<(String, String)>,
    /// The body as plain text, when the message has one.
    pub text: Option<String>,
    /// The body as HTML as it was sent (not sanitised), when the message has one.
    pub html: Option<String>,
    /// Every leaf part that is neither of the two bodies.
    pub attachments: Vec<AttachmentInfo>,
}

/// An attachment of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachmentInfo {
    /// Its position among the attachments, from 0.
    pub index: u32,
    /// Its name, decoded; made up from the index and type when the message gives none.
    pub filename: String,
    /// Its media type, `type/subtype` in lower case.
    pub content_type: String,
    /// The parameters of its media type without which its octets cannot be read, as they stand behind it in a
    /// Content-Type: `; charset=utf-8`. Each is a token (RFC 2045 section 5.1); nearly always there is none.
    pub type_parameters: String,
    /// Octets after decoding.
    pub size: u64,
    /// Its Content-ID without angle brackets.
    pub content_id: Option<String>,
}

/// An attachment being read.
pub struct OpenedAttachment {
    /// Which.
    pub info: AttachmentInfo,
    /// Its octets, decoded; exactly [`AttachmentInfo::size`] of them.
    pub content: ByteStream,
}

/// A message being read as it was received.
pub struct OpenedMessage {
    /// Octets of the whole.
    pub size: u64,
    /// The octets.
    pub content: ByteStream,
}

/// Where to search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderScope {
    /// In this folder.
    One(FolderName),
    /// In all folders.
    All,
}

/// What to search for: at least two characters, of which something can be seen. Nothing at all is found everywhere, and
/// spaces nearly so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchText(String);

/// A text that is too short, or too long, to be searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 2 to 200 characters, some that can be seen, and no control characters")]
pub struct SearchTextError;

impl SearchText {
    /// The fewest characters.
    pub const MIN_CHARACTERS: usize = 2;
    /// The most characters.
    pub const MAX_CHARACTERS: usize = 200;

    /// The text as it was given.
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

/// A search: a substring, whatever its case, after decoding, in subject, from, to, cc and the text of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuery {
    /// What.
    pub text: SearchText,
    /// Where.
    pub scope: FolderScope,
    /// Which part of the result.
    pub page: Page,
}

/// A message that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// Its number in its folder.
    pub uid: u32,
    /// Its folder.
    pub folder: FolderName,
    /// The first author.
    pub from: Correspondent,
    /// The subject.
    pub subject: String,
    /// The Date header, or the time of arrival.
    pub date: Timestamp,
    /// At most 200 characters of plain text around the first match, on one line.
    pub snippet: String,
}

/// What a purge removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purged {
    /// How many folders were emptied or empty already.
    pub folders: u64,
    /// How many messages are gone.
    pub messages: u64,
}
