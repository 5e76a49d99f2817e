//! `GET /mailbox/{email}/folders`.

use mailapi_backend::FolderInfo;
use mailapi_model::EmailAddress;

use super::ReadError;
use crate::{Caller, Service};

impl Service {
    /// Returns all folders of a mailbox.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn list_folders(&self, caller: &Caller, mailbox: &EmailAddress) -> Result<Vec<FolderInfo>, ReadError> {
        let reader = caller.grants.may_read(mailbox)?;
        Ok(self.0.backend.mailboxes.folders(self.existing(&reader).await?).await?)
    }
}
