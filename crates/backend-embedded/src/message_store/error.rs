//! Why the maildrop could not do what was asked.

use mailapi_backend::MailboxError;
use mailapi_store::StoreError;

/// What went wrong, in the words of a mail store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageStoreError {
    /// There is no such mailbox.
    #[error("the mailbox does not exist")]
    NoSuchMailbox,
    /// The mailbox has no such folder (any more).
    #[error("the folder does not exist")]
    NoSuchFolder,
    /// The message is not there (any more).
    #[error("the message does not exist")]
    NoSuchMessage,
    /// The message has no such attachment.
    #[error("the attachment does not exist")]
    NoSuchAttachment,
    /// A folder of that name is there already.
    #[error("the folder exists already")]
    FolderExists,
    /// INBOX cannot be deleted, and a folder cannot be moved into itself.
    #[error("the folder cannot be changed in this way")]
    FolderIsFixed,
    /// The mailbox has as many folders as it may.
    #[error("the mailbox has too many folders")]
    TooManyFolders,
    /// The folder has used up its UIDs.
    #[error("the folder cannot take another message")]
    FolderIsFull,
    /// The message would have more keywords than it may.
    #[error("the message has too many keywords")]
    TooManyKeywords,
    /// The mailbox would hold more than its quota.
    #[error("the mailbox is full")]
    OverQuota,
    /// The message is longer than the server takes.
    #[error("the message is too long")]
    TooLong,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<rusqlite::Error> for MessageStoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<MessageStoreError> for MailboxError {
    fn from(error: MessageStoreError) -> Self {
        match error {
            MessageStoreError::NoSuchMailbox => Self::NoSuchMailbox,
            MessageStoreError::NoSuchFolder => Self::NoSuchFolder,
            MessageStoreError::NoSuchMessage => Self::NoSuchMessage,
            MessageStoreError::NoSuchAttachment => Self::NoSuchAttachment,
            other => Self::Unavailable(other.to_string()),
        }
    }
}

impl MessageStoreError {
    /// The error of a transaction in which only the database can fail.
    pub(crate) fn into_store(self) -> StoreError {
        match self {
            Self::Store(error) => error,
            other => StoreError::Unexpected(other.to_string()),
        }
    }
}
