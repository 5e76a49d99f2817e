//! `GET /mailbox/{email}/messages/{uid}/raw`.

use mailapi_backend::OpenedMessage;
use mailapi_model::{EmailAddress, FolderName};

use super::ReadError;
use crate::{Caller, Service};

impl Service {
    /// Opens a message as received, as a stream.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn download_raw(
        &self,
        caller: &Caller,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
    ) -> Result<OpenedMessage, ReadError> {
        let reader = caller.grants.may_read(mailbox)?;
        Ok(self.0.backend.mailboxes.open_raw(self.existing(&reader).await?, folder, uid).await?)
    }
}
