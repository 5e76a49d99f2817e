//! The mailboxes of the operator's IMAP server. Reading uses EXAMINE and BODY.PEEK, which change nothing; only drafts
//! and a purge change a mailbox.

mod attachment;
mod content;
mod download;
mod drafts;
mod exact_size;
mod folders;
mod list;
mod load;
mod parts;
mod purge;
mod quota;
mod raw;
mod read;
mod recent_quotas;
mod search;
mod settings;
mod sharing;
mod summaries;

use std::sync::Arc;

use async_trait::async_trait;
use mailapi_backend::{
    FolderInfo, FullMessage, MailboxError, Mailboxes, NewDraft, OpenedAttachment, OpenedMessage, PageView, Purged,
    SavedDraft, SearchHit, SearchQuery, Validator,
};
use mailapi_model::{EmailAddress, FolderName, Listed, Page, Quota};

use crate::imap_pool::ImapPool;
use crate::search_index::SearchIndex;
use exact_size::ExactSizes;
use list::Shown;
use recent_quotas::RecentQuotas;
use sharing::Shared;
use summaries::Summaries;

pub use purge::{ImapPurge, Purge};
pub use settings::MailboxSettings;

/// The port to the operator's IMAP server.
pub struct ImapMailboxes {
    pool: ImapPool,
    settings: MailboxSettings,
    summaries: Summaries,
    lists: Shared<ListKey, Result<Shown, MailboxError>>,
    exact_sizes: ExactSizes,
    quotas: Arc<RecentQuotas>,
    purge: Arc<dyn Purge>,
    index: Option<Arc<SearchIndex>>,
}

/// The key of a request for a page: mailbox, folder, limit, offset, and the validator that the caller has.
type ListKey = (EmailAddress, FolderName, u32, u64, Option<Validator>);

impl ImapMailboxes {
    /// Creates the port over a connection pool. `purge` is [`ImapPurge`], or the mail server's own administration
    /// interface.
    #[must_use]
    pub fn new(pool: ImapPool, settings: MailboxSettings, purge: Arc<dyn Purge>) -> Self {
        let summaries = Summaries::new(settings.summary_cache_bytes);
        let exact_sizes = ExactSizes::new(settings.exact_size_cache_bytes);
        let quotas = Arc::new(RecentQuotas::new());
        Self { pool, settings, summaries, lists: Shared::new(), exact_sizes, quotas, purge, index: None }
    }

    /// Enables the local search index. The caller must also run [`ImapMailboxes::keep_index`].
    #[must_use]
    pub fn with_search_index(self, index: Arc<SearchIndex>) -> Self {
        Self { index: Some(index), ..self }
    }

    /// Removes a mailbox from the index, after its mail was removed permanently.
    pub(crate) async fn erase_index(&self, mailbox: &EmailAddress) {
        if let Some(index) = &self.index {
            index.erase(mailbox).await;
        }
    }

    /// Returns an error unless the mailbox is empty, after a purge that found no folder. Dovecot's administration
    /// interface reports success both for an unreadable home directory and for one that does not exist yet.
    async fn demand_empty(&self, mailbox: &EmailAddress) -> Result<(), MailboxError> {
        match self.folders(mailbox).await?.iter().all(|folder| folder.messages == 0) {
            true => Ok(()),
            false => Err(MailboxError::Unavailable("the mailbox could not be purged".to_owned())),
        }
    }

    /// Drops the cached data and idle connections of a mailbox that was created, removed or emptied by others.
    pub fn forget(&self, mailbox: &EmailAddress) {
        self.pool.forget(mailbox);
        self.quotas.forget(mailbox);
    }
}

#[async_trait]
impl Mailboxes for ImapMailboxes {
    async fn folders(&self, mailbox: &EmailAddress) -> Result<Vec<FolderInfo>, MailboxError> {
        self.pool.run(mailbox, None, &folders::ListFolders).await
    }

    async fn view(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        page: Page,
        seen: Option<Validator>,
    ) -> Result<PageView, MailboxError> {
        let (summaries, settings) = (&self.summaries, &self.settings);
        let job = list::ListPage { mailbox, folder, page, summaries, settings, seen };
        let key = (mailbox.clone(), folder.clone(), page.limit(), page.offset(), seen);
        // Concurrent equal requests share one result.
        let shown = self.lists.ask(key, async || self.pool.run(mailbox, Some(folder), &job).await).await?;
        Ok(match shown {
            Shown::Unchanged => PageView::Unchanged,
            Shown::Now { listed, validator } => PageView::Now { listed: Arc::unwrap_or_clone(listed), validator },
        })
    }

    async fn read(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32) -> Result<FullMessage, MailboxError> {
        let job = read::ReadMessage { mailbox, folder, uid, exact_sizes: &self.exact_sizes, settings: &self.settings };
        self.pool.run(mailbox, Some(folder), &job).await
    }

    async fn open_attachment(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
        index: u32,
    ) -> Result<OpenedAttachment, MailboxError> {
        let exact_sizes = &self.exact_sizes;
        let job = attachment::OpenAttachment { mailbox, folder, uid, index, exact_sizes, settings: &self.settings };
        let (opened, pooled) = self.pool.run_keeping(mailbox, Some(folder), &job).await?;
        Ok(attachment::stream(opened, pooled, exact_sizes))
    }

    async fn open_raw(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
    ) -> Result<OpenedMessage, MailboxError> {
        let (content, pooled) = self.pool.run_keeping(mailbox, Some(folder), &raw::OpenRaw { folder, uid }).await?;
        Ok(raw::stream(content, pooled))
    }

    async fn search(&self, mailbox: &EmailAddress, query: &SearchQuery) -> Result<Listed<SearchHit>, MailboxError> {
        self.find(mailbox, query).await
    }

    async fn drafts_folder(&self, mailbox: &EmailAddress) -> Result<Option<FolderName>, MailboxError> {
        self.pool.run(mailbox, None, &drafts::FindFolder).await
    }

    async fn save_draft(&self, mailbox: &EmailAddress, draft: NewDraft) -> Result<SavedDraft, MailboxError> {
        let saved = self.pool.run(mailbox, None, &drafts::SaveDraft::new(draft)).await;
        // A failed change may have changed a part.
        self.quotas.forget(mailbox);
        saved
    }

    async fn delete_draft(&self, mailbox: &EmailAddress, uid: u32) -> Result<(), MailboxError> {
        let deleted = self.pool.run(mailbox, None, &drafts::DeleteDraft { uid }).await;
        self.quotas.forget(mailbox);
        deleted
    }

    async fn purge(&self, mailbox: &EmailAddress) -> Result<Purged, MailboxError> {
        let purged = self.purge.purge(mailbox).await;
        // A failed purge may have removed a part.
        self.quotas.forget(mailbox);
        let purged = purged?;
        if purged.folders == 0 {
            self.demand_empty(mailbox).await?;
        }
        self.erase_index(mailbox).await;
        Ok(purged)
    }

    async fn quota(&self, mailbox: &EmailAddress) -> Result<Quota, MailboxError> {
        self.quotas.ask_anew(mailbox, self.pool.run(mailbox, None, &quota::ReadQuota)).await
    }

    async fn recent_quota(&self, mailbox: &EmailAddress) -> Result<Quota, MailboxError> {
        let Some(shown) = self.quotas.shown(mailbox) else {
            return self.quotas.ask(mailbox, self.pool.run(mailbox, None, &quota::ReadQuota)).await;
        };
        let (pool, asked) = (self.pool.clone(), mailbox.clone());
        self.quotas.refresh(mailbox, async move { pool.run(&asked, None, &quota::ReadQuota).await });
        Ok(shown)
    }

    async fn check(&self) -> Result<(), String> {
        self.pool.check().await
    }
}
