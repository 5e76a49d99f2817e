//! The port `Mailboxes` of the message store.

use async_trait::async_trait;
use mailapi_backend::{
    Backlog, FolderInfo, FullMessage, ImportProgress, MailboxError, Mailboxes, NewDraft, OpenedAttachment,
    OpenedMessage, PageView, Purged, SavedDraft, SearchHit, SearchQuery, Validator,
};
use mailapi_model::{EmailAddress, FolderName, Listed, Page, Quota};
use rusqlite::Connection;

use super::id::FolderId;
use super::{
    MessageStore, MessageStoreError, STEP, Touched, drafts, entry, folder, import_progress, index, listing, mailbox,
    removed,
};

#[async_trait]
impl Mailboxes for MessageStore {
    async fn folders(&self, mailbox: &EmailAddress) -> Result<Vec<FolderInfo>, MailboxError> {
        Ok(self.list_folders(mailbox).await?.into_iter().map(FolderInfo::from).collect())
    }

    async fn view(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        page: Page,
        seen: Option<Validator>,
    ) -> Result<PageView, MailboxError> {
        // Almost every revalidation succeeds, and one statement decides it.
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

    async fn drafts_folder(&self, mailbox: &EmailAddress) -> Result<Option<FolderName>, MailboxError> {
        Ok(self.read(|connection| drafts::folder_name(connection, mailbox)).await?)
    }

    async fn save_draft(&self, mailbox: &EmailAddress, draft: NewDraft) -> Result<SavedDraft, MailboxError> {
        Ok(self.put_draft(mailbox, draft).await?)
    }

    async fn delete_draft(&self, mailbox: &EmailAddress, uid: u32) -> Result<(), MailboxError> {
        Ok(self.remove_draft(mailbox, uid).await?)
    }

    async fn purge(&self, mailbox: &EmailAddress) -> Result<Purged, MailboxError> {
        let address = mailbox.clone();
        Ok(self.to_its_end(move |message_store| async move { message_store.purge_in_steps(address).await }).await?)
    }

    async fn quota(&self, mailbox: &EmailAddress) -> Result<Quota, MailboxError> {
        Ok(self.read(|connection| Ok::<_, MessageStoreError>(mailbox::expect(connection, mailbox)?.quota)).await?)
    }

    async fn imports(&self) -> Result<Vec<ImportProgress>, MailboxError> {
        Ok(self.read(import_progress::list).await?)
    }

    async fn backlog(&self) -> Result<Option<Backlog>, MailboxError> {
        let found: Result<_, MessageStoreError> = self
            .read(|connection| {
                Ok(Backlog { to_index: index::left(connection)?, to_remove: removed::left(connection)? })
            })
            .await;
        Ok(Some(found?))
    }

    async fn check(&self) -> Result<(), String> {
        self.readable().await
    }
}

impl MessageStore {
    /// Checks that the database can be read.
    pub(crate) async fn readable(&self) -> Result<(), String> {
        self.read(|connection| mailbox::is_local_domain(connection, "")).await.map(drop).map_err(|e| e.to_string())
    }
}

impl MessageStore {
    /// Removes the messages that the folders contain at the start. Other writers run between the steps.
    async fn purge_in_steps(&self, address: EmailAddress) -> Result<Purged, MessageStoreError> {
        // A folder whose numbers are used up or damaged could not be emptied, and would take no mail afterwards.
        self.mend_mailbox(&address).await?;
        let folders = self.list_folders(&address).await?;
        let mut messages = 0;
        for folder in &folders {
            let (id, below) = (folder.id, folder.uid_next);
            loop {
                let step = self.write_freeing(move |connection, touched| purge_step(connection, id, below, touched));
                let removed = match step.await {
                    // Deleted by another session in the meantime.
                    Err(MessageStoreError::NoSuchFolder) => break,
                    removed => removed?,
                };
                messages += removed as u64;
                if removed < STEP {
                    break;
                }
            }
        }
        Ok(Purged { folders: folders.len() as u64, messages })
    }
}

fn purge_step(
    connection: &Connection,
    id: FolderId,
    below: u32,
    touched: &mut Touched,
) -> Result<usize, MessageStoreError> {
    let mailbox = folder::by_id(connection, id)?.mailbox;
    let uids = entry::first_below(connection, id, below, STEP)?;
    if !uids.is_empty() {
        folder::remove_entries(connection, id, &uids)?;
        touched.mailbox(mailbox);
        touched.chores();
    }
    Ok(uids.len())
}
