//! Converts errors of the message store to IMAP failures.

use mailapi_imap::server::session::Failure;

use crate::message_store::MessageStoreError;

/// Returns the failure for the client. Logs errors that only the operator can fix.
pub(super) fn failure(error: MessageStoreError) -> Failure {
    match error {
        MessageStoreError::NoSuchFolder => Failure::NoSuchMailbox,
        MessageStoreError::FolderExists => Failure::AlreadyExists,
        MessageStoreError::SpecialUseTaken => Failure::SpecialUseTaken,
        MessageStoreError::FolderIsFixed => Failure::Cannot,
        MessageStoreError::TooManyFolders
        | MessageStoreError::TooManyKeywords
        | MessageStoreError::FolderIsFull
        | MessageStoreError::TooMuchToOrder => Failure::Limit,
        MessageStoreError::OverQuota => Failure::OverQuota,
        MessageStoreError::TooLong => Failure::TooLarge,
        // The account was removed during its session, or a message was removed while it was read.
        MessageStoreError::NoSuchMailbox | MessageStoreError::NoSuchMessage | MessageStoreError::NoSuchAttachment => {
            Failure::Unavailable
        }
        MessageStoreError::Store(error) => {
            tracing::error!(%error, "IMAP command failed");
            Failure::Unavailable
        }
    }
}
