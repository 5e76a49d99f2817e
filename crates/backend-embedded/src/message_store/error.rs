//! Errors of the message store.

use mailapi_backend::MailboxError;
use mailapi_store::StoreError;

/// An error of the message store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageStoreError {
    /// The mailbox does not exist.
    #[error("the mailbox does not exist")]
    NoSuchMailbox,
    /// The folder does not exist, or was removed.
    #[error("the folder does not exist")]
    NoSuchFolder,
    /// The message does not exist, or was removed.
    #[error("the message does not exist")]
    NoSuchMessage,
    /// The attachment does not exist.
    #[error("the attachment does not exist")]
    NoSuchAttachment,
    /// A folder of that name already exists.
    #[error("the folder already exists")]
    FolderExists,
    /// INBOX cannot be deleted, and a folder cannot be moved into itself.
    #[error("the folder cannot be changed in this way")]
    FolderIsFixed,
    /// Another folder of the mailbox has this special use.
    #[error("another folder has this special use")]
    SpecialUseTaken,
    /// The mailbox has the maximum number of folders.
    #[error("the mailbox has too many folders")]
    TooManyFolders,
    /// The folder has no free UIDs.
    #[error("the folder has no free UIDs")]
    FolderIsFull,
    /// The message would exceed the maximum number of keywords.
    #[error("the message has too many keywords")]
    TooManyKeywords,
    /// The matching messages have more texts to compare than one SORT or THREAD may hold.
    #[error("too many messages to order")]
    TooMuchToOrder,
    /// The mailbox would exceed its quota.
    #[error("the mailbox is full")]
    OverQuota,
    /// The message exceeds the maximum size.
    #[error("the message exceeds the maximum size")]
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
            MessageStoreError::OverQuota => Self::Full,
            MessageStoreError::TooLong => Self::TooLarge,
            other => Self::Unavailable(other.to_string()),
        }
    }
}

impl MessageStoreError {
    /// Converts the error of a transaction in which only the database can fail.
    pub(crate) fn into_store(self) -> StoreError {
        match self {
            Self::Store(error) => error,
            other => StoreError::Unexpected(other.to_string()),
        }
    }
}
