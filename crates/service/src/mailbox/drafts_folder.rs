//! The folder for drafts.

use mailapi_model::{EmailAddress, FolderName};

use super::ReadError;
use crate::{Caller, Service};

impl Service {
    /// Returns the folder for drafts of a mailbox, if there is one.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn drafts_folder(
        &self,
        caller: &Caller,
        mailbox: &EmailAddress,
    ) -> Result<Option<FolderName>, ReadError> {
        let reader = caller.grants.may_read(mailbox)?;
        Ok(self.0.backend.mailboxes.drafts_folder(self.existing(&reader).await?).await?)
    }
}
