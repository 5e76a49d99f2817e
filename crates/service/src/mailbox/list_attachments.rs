//! `GET /mailbox/{email}/folders/{folder}/messages/{uid}/attachments`.

use mailapi_backend::AttachmentInfo;
use mailapi_model::{EmailAddress, FolderName};

use super::ReadError;
use crate::{Caller, Service};

impl Service {
    /// Returns the attachments of a message.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn list_attachments(
        &self,
        caller: &Caller,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
    ) -> Result<Vec<AttachmentInfo>, ReadError> {
        Ok(self.read_message(caller, mailbox, folder, uid).await?.attachments)
    }
}
