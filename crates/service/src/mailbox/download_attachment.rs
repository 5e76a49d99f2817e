//! `GET /mailbox/{email}/messages/{uid}/attachment/{index}`, and by name.

use mailapi_backend::{MailboxError, OpenedAttachment};
use mailapi_model::{EmailAddress, FolderName};

use super::ReadError;
use crate::{Caller, Service};

impl Service {
    /// Opens an attachment by its index, as a stream.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn download_attachment(
        &self,
        caller: &Caller,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
        index: u32,
    ) -> Result<OpenedAttachment, ReadError> {
        let reader = caller.grants.may_read(mailbox)?;
        Ok(self.0.backend.mailboxes.open_attachment(self.existing(&reader).await?, folder, uid, index).await?)
    }

    /// Opens the first attachment of this name, or the one of this name at `index`, as a stream.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn download_attachment_named(
        &self,
        caller: &Caller,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
        name: &str,
        index: Option<u32>,
    ) -> Result<OpenedAttachment, ReadError> {
        let attachments = self.list_attachments(caller, mailbox, folder, uid).await?;
        let wanted = attachments.iter().find(|a| a.filename == name && index.is_none_or(|index| a.index == index));
        let index = wanted.ok_or(MailboxError::NoSuchAttachment)?.index;
        self.download_attachment(caller, mailbox, folder, uid, index).await
    }
}
