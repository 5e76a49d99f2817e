//! The maildrop as mailboxes that callers read.

use async_trait::async_trait;
use mailapi_backend::{
    FolderInfo, FullMessage, MailboxError, Mailboxes, OpenedAttachment, OpenedMessage, PageMark, PageView, Purged,
    SearchHit, SearchQuery,
};
use mailapi_model::{EmailAddress, FolderName, Listed, Page, Quota};
use rusqlite::Connection;

use super::{Maildrop, MaildropError, Touched, entry, folder, listing, mailbox};

#[async_trait]
impl Mailboxes for Maildrop {
    async fn folders(&self, mailbox: &EmailAddress) -> Result<Vec<FolderInfo>, MailboxError> {
        Ok(self.list_folders(mailbox).await?.into_iter().map(FolderInfo::from).collect())
    }

    async fn view(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        page: Page,
        seen: Option<PageMark>,
    ) -> Result<PageView, MailboxError> {
        // Next to all pages that were seen are what they were, and one statement tells.
        if let Some(seen) = seen
            && self.read_one(|connection| listing::is_unchanged(connection, mailbox, folder, seen)).await?
        {
            return Ok(PageView::Unchanged);
        }
        Ok(self.read(|connection| listing::view(connection, mailbox, folder, page)).await?)
    }

    async fn read(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32) -> Result<FullMessage, MailboxError> {
        Ok(self.full_message(mailbox, folder, uid).await?)
    }

    async fn open_attachment(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
        index: u32,
    ) -> Result<OpenedAttachment, MailboxError> {
        Ok(self.attachment(mailbox, folder, uid, index).await?)
    }

    async fn open_raw(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
    ) -> Result<OpenedMessage, MailboxError> {
        Ok(self.raw(mailbox, folder, uid).await?)
    }

    async fn search(&self, mailbox: &EmailAddress, query: &SearchQuery) -> Result<Listed<SearchHit>, MailboxError> {
        Ok(self.find_text(mailbox, query).await?)
    }

    async fn purge(&self, mailbox: &EmailAddress) -> Result<Purged, MailboxError> {
        let address = mailbox.clone();
        Ok(self.write(move |connection, touched| purge(connection, &address, touched)).await?)
    }

    async fn quota(&self, mailbox: &EmailAddress) -> Result<Quota, MailboxError> {
        Ok(self.read(|connection| Ok::<_, MaildropError>(mailbox::expect(connection, mailbox)?.quota)).await?)
    }

    async fn check(&self) -> Result<(), String> {
        self.readable().await
    }
}

impl Maildrop {
    /// Whether the database can be read.
    pub(crate) async fn readable(&self) -> Result<(), String> {
        self.read(|connection| mailbox::is_local_domain(connection, "")).await.map(drop).map_err(|e| e.to_string())
    }
}

fn purge(connection: &Connection, address: &EmailAddress, touched: &mut Touched) -> Result<Purged, MaildropError> {
    let mailbox = mailbox::expect(connection, address)?.id;
    let folders = folder::list(connection, mailbox)?.len() as u64;
    let messages = entry::remove_all(connection, mailbox)?;
    touched.mailbox(mailbox);
    touched.chores();
    Ok(Purged { folders, messages })
}
