//! What the maildrop cannot do, in the words of the protocol.

use mailapi_imap::server::session::Failure;

use crate::maildrop::MaildropError;

/// The failure to tell. What nobody but the operator can mend is logged here.
pub(super) fn failure(error: MaildropError) -> Failure {
    match error {
        MaildropError::NoSuchFolder => Failure::NoSuchMailbox,
        MaildropError::FolderExists => Failure::AlreadyExists,
        MaildropError::FolderIsFixed => Failure::Cannot,
        MaildropError::TooManyFolders | MaildropError::TooManyKeywords | MaildropError::FolderIsFull => Failure::Limit,
        MaildropError::OverQuota => Failure::OverQuota,
        MaildropError::TooLong => Failure::TooLarge,
        // The account was removed while its owner was logged in, or a message went away while it was read.
        MaildropError::NoSuchMailbox | MaildropError::NoSuchMessage | MaildropError::NoSuchAttachment => {
            Failure::Unavailable
        }
        MaildropError::Store(error) => {
            tracing::error!(%error, "an IMAP command could not be carried out");
            Failure::Unavailable
        }
    }
}
