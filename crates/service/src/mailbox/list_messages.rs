//! `GET /mailbox/{email}/messages`.

use mailapi_backend::{MailboxError, PageView, Validator};
use mailapi_model::{FolderName, Page, ReadMailbox};

use crate::Service;

impl Service {
    /// Returns a page of a folder, newest first. With the validator `seen`, an unchanged page is reported without
    /// its messages.
    ///
    /// # Errors
    /// The mail server's error.
    pub async fn list_messages(
        &self,
        reader: &ReadMailbox,
        folder: &FolderName,
        page: Page,
        seen: Option<Validator>,
    ) -> Result<PageView, MailboxError> {
        self.0.backend.mailboxes.view(self.existing(reader).await?, folder, page, seen).await
    }
}
