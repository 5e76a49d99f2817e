//! `GET /mailbox/{email}/messages`.

use mailapi_backend::{MailboxError, PageView, Validator};
use mailapi_model::{FolderName, Page, ReadMailbox};

use crate::Service;

impl Service {
    /// One page of a folder, newest first. Whoever still has the page that had the mark `seen` is told when that is
    /// what would be listed now.
    ///
    /// # Errors
    /// The mail server's answer.
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
