//! `GET /mail/inbox`.

use mailapi_backend::MessageSummary;
use mailapi_model::{EmailAddress, FolderName, Listed, Page};

use crate::mailbox::ReadError;
use crate::{Caller, Service};

/// Why no inbox is listed.
#[derive(Debug, thiserror::Error)]
pub enum ListInboxError {
    /// An admin's API token has no mailbox of its own and named none.
    #[error("an admin token has no mailbox of its own: name one")]
    NoMailbox,
    /// As for every mailbox.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Service {
    /// The caller's own INBOX, or that of the mailbox which they name and may read. Also says whose it is.
    ///
    /// # Errors
    /// See [`ListInboxError`].
    pub async fn list_inbox(
        &self,
        caller: &Caller,
        mailbox: Option<EmailAddress>,
        folder: &FolderName,
        page: Page,
    ) -> Result<(EmailAddress, Listed<MessageSummary>), ListInboxError> {
        let mailbox = mailbox.or_else(|| caller.grants.mailbox().cloned()).ok_or(ListInboxError::NoMailbox)?;
        let listed = self.list_messages(caller, &mailbox, folder, page).await?;
        Ok((mailbox, listed))
    }
}
