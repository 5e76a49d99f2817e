//! What the maildrop cannot do, in the words of the protocol.

use mailapi_imap::server::session::Failure;

use crate::message_store::MessageStoreError;

/// The failure to tell. What nobody but the operator can mend is logged here.
pub(super) fn failure(error: MessageStoreError) -> Failure {
    match error {
        MessageStoreError::NoSuchFolder => Failure::NoSuchMailbox,
        MessageStoreError::FolderExists => Failure::AlreadyExists,
        MessageStoreError::FolderIsFixed => Failure::Cannot,
        MessageStoreError::TooManyFolders | MessageStoreError::TooManyKeywords | MessageStoreError::FolderIsFull => {
            Failure::Limit
        }
        MessageStoreError::OverQuota => Failure::OverQuota,
        MessageStoreError::TooLong => Failure::TooLarge,
        // The account was removed while its owner was logged in, or a message went away while it was read.
        MessageStoreError::NoSuchMailbox | MessageStoreError::NoSuchMessage | MessageStoreError::NoSuchAttachment => {
            Failure::Unavailable
        }
        MessageStoreError::Store(error) => {
            tracing::error!(%error, "an IMAP command could not be carried out");
            Failure::Unavailable
        }
    }
}
