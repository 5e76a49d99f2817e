//! `GET /mailbox/{email}/messages/{uid}`.

use mailapi_backend::FullMessage;
use mailapi_model::{EmailAddress, FolderName};

use super::ReadError;
use crate::{Caller, Service};

impl Service {
    /// Reads and decodes a message.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read_message(
        &self,
        caller: &Caller,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
    ) -> Result<FullMessage, ReadError> {
        let reader = caller.grants.may_read(mailbox)?;
        Ok(self.0.backend.mailboxes.read(self.existing(&reader).await?, folder, uid).await?)
    }
}
