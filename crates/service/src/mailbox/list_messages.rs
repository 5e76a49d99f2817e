//! `GET /mailbox/{email}/messages`.

use mailapi_backend::MessageSummary;
use mailapi_model::{EmailAddress, FolderName, Listed, Page};

use super::ReadError;
use crate::{Caller, Service};

impl Service {
    /// One page of a folder, newest first.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn list_messages(
        &self,
        caller: &Caller,
        mailbox: &EmailAddress,
        folder: &FolderName,
        page: Page,
    ) -> Result<Listed<MessageSummary>, ReadError> {
        let reader = caller.grants.may_read(mailbox)?;
        Ok(self.0.backend.mailboxes.list(self.existing(&reader).await?, folder, page).await?)
    }
}
