//! An index of our own for searches of the operator's IMAP server.
//!
//! A mailbox that was searched gets a file with the texts of its messages and their trigrams, filled with what the IMAP
//! server holds, folder by folder and UID after UID. What a message says never changes under its UID, so the file can
//! lag behind and never be wrong; before it answers, it is compared with what the server tells of the folder, and
//! brought up to date. All of it can be made again, and so whatever is wrong with a file, it is dropped.
//!
//! Here is what lies on the disk; `mailboxes::search` reads from the server and decides who answers.

mod catalogue;
mod directory;
mod error;
mod find;
mod folder_state;
mod mailbox_index;
mod settings;
mod tables;
mod waiting;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mailapi_backend::{SearchHit, SearchQuery};
use mailapi_model::{Clock, EmailAddress, Listed};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use directory::Directory;
use waiting::Waiting;

pub(crate) use error::IndexError;
pub(crate) use find::Searched;
pub(crate) use folder_state::{FolderState, FolderTold};
pub(crate) use mailbox_index::{IndexWriter, MailboxIndex};
pub use settings::{IndexUse, SearchSettings};
pub(crate) use tables::Entry;
pub(crate) use waiting::Request;

/// The indexes of all mailboxes, in a directory of their own.
pub struct SearchIndex {
    settings: Arc<SearchSettings>,
    clock: Arc<dyn Clock>,
    /// None until it is needed, and while another process uses it.
    directory: Arc<Mutex<Option<Directory>>>,
    waiting: Mutex<Waiting>,
    asked: Notify,
    searches: Arc<Semaphore>,
    /// The mailbox that the server was asked about last, of those that have an index.
    looked_at: Mutex<String>,
}

impl SearchIndex {
    /// Nothing is opened until the first search.
    #[must_use]
    pub fn new(settings: SearchSettings, clock: Arc<dyn Clock>) -> Self {
        let searches = Arc::new(Semaphore::new(settings.connections.max(1)));
        Self {
            settings: Arc::new(settings),
            clock,
            directory: Arc::default(),
            waiting: Mutex::default(),
            asked: Notify::new(),
            searches,
            looked_at: Mutex::default(),
        }
    }

    pub(crate) fn settings(&self) -> &SearchSettings {
        &self.settings
    }

    /// A mailbox's index. None when there can be none at the moment; whoever asked does without.
    pub(crate) async fn open(&self, mailbox: &EmailAddress) -> Option<Arc<MailboxIndex>> {
        if let Some(index) = self.opened(mailbox) {
            return Some(index);
        }
        let (of, now) = (mailbox.clone(), self.clock.now());
        let opened = self.with_directory(move |directory| directory.index(&of, now)).await;
        match opened {
            Ok(index) => index.flatten(),
            Err(error) => {
                tracing::warn!(%mailbox, %error, "the search index of a mailbox cannot be opened");
                None
            }
        }
    }

    /// What is there without looking at the disk, and without waiting for those who do.
    fn opened(&self, mailbox: &EmailAddress) -> Option<Arc<MailboxIndex>> {
        self.directory.try_lock().ok()?.as_ref()?.opened(mailbox)
    }

    /// Searches folders that are known to be whole. [`IndexError::Busy`] when others are at it for too long.
    pub(crate) async fn search(
        &self,
        index: &Arc<MailboxIndex>,
        folders: Vec<Searched>,
        query: &SearchQuery,
    ) -> Result<Listed<SearchHit>, IndexError> {
        index.note_search(self.clock.now());
        let guards = async {
            // The mailbox's own first, so that who waits for it keeps no other mailbox waiting.
            let own = index.lock_for_search().await;
            let closed = |_| IndexError::Unusable("it is closed".to_owned());
            Ok::<_, IndexError>((own, Arc::clone(&self.searches).acquire_owned().await.map_err(closed)?))
        };
        let guard = timeout(self.settings.wait_timeout, guards).await.unwrap_or(Err(IndexError::Busy))?;
        index.search(folders, query, guard).await
    }

    /// Drops what is known of a mailbox: it is gone, or its index is of no use.
    pub(crate) async fn erase(&self, mailbox: &EmailAddress) {
        let of = mailbox.clone();
        if let Err(error) = self.with_directory(move |directory| directory.erase(&of)).await {
            tracing::warn!(%mailbox, %error, "the search index of a mailbox cannot be removed");
        }
    }

    /// Removes what is too old or too much.
    pub(crate) async fn prune(&self) {
        if !self.settings.directory.exists() {
            return;
        }
        let now = self.clock.now();
        if let Err(error) = self.with_directory(move |directory| directory.prune(now)).await {
            tracing::warn!(%error, "the search index cannot be tidied");
        }
    }

    /// Some mailboxes that have an index, behind the one that was looked at last.
    pub(crate) async fn next_to_look_at(&self) -> Vec<EmailAddress> {
        let (behind, count) = (lock(&self.looked_at).clone(), self.settings.tidy_mailboxes);
        if count == 0 || !self.settings.directory.exists() {
            return Vec::new();
        }
        match self.with_directory(move |directory| directory.mailboxes_behind(&behind, count)).await {
            Ok(mailboxes) => mailboxes.unwrap_or_default(),
            Err(error) => {
                tracing::warn!(%error, "the search index cannot be read");
                Vec::new()
            }
        }
    }

    /// The server is asked about a mailbox.
    pub(crate) fn note_look(&self, mailbox: &EmailAddress) {
        *lock(&self.looked_at) = mailbox.to_string();
    }

    /// Removes what an index left behind that is not used any longer. Blocks.
    pub(crate) fn remove_unused(settings: &SearchSettings) {
        if let Err(error) = Directory::remove_all(&settings.directory) {
            tracing::warn!(%error, "the search index cannot be removed");
        }
    }

    /// A mailbox was searched and is to be indexed in the background.
    pub(crate) fn ask_for(&self, request: Request) {
        if lock(&self.waiting).push(request, self.settings.max_waiting) {
            self.asked.notify_one();
        }
    }

    /// The next mailbox that waits.
    pub(crate) fn next_request(&self) -> Option<Request> {
        lock(&self.waiting).pop()
    }

    /// Comes back when something was asked for since it was called last.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// Works on the directory, on a thread that may block; none while another process uses it.
    async fn with_directory<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Directory) -> Result<T, IndexError> + Send + 'static,
    ) -> Result<Option<T>, IndexError> {
        let (shared, settings) = (self.directory.clone(), self.settings.clone());
        let running = tokio::task::spawn_blocking(move || {
            let mut directory = lock(&shared);
            if directory.is_none() {
                *directory = Directory::open(&settings)?;
            }
            directory.as_mut().map(job).transpose()
        });
        running.await.unwrap_or_else(|_| Err(IndexError::Unusable("the work was interrupted".to_owned())))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use mailapi_backend::FolderScope;
    use mailapi_model::Page;
    use mailapi_testkit::FakeClock;
    use tempfile::TempDir;

    use super::*;

    fn index(settings: SearchSettings) -> SearchIndex {
        SearchIndex::new(settings, Arc::new(FakeClock::default()))
    }

    async fn open(index: &SearchIndex, local: &str) -> Arc<MailboxIndex> {
        index.open(&format!("{local}@example.org").parse().unwrap()).await.unwrap()
    }

    fn names(directory: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(directory.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    #[tokio::test]
    async fn a_mailbox_has_one_search_and_blocks_no_other_mailbox() {
        let directory = TempDir::new().unwrap();
        let settings = SearchSettings { wait_timeout: Duration::ZERO, ..SearchSettings::new(directory.path()) };
        let index = index(settings);
        let (ann, bob) = (open(&index, "ann").await, open(&index, "bob").await);
        let query = SearchQuery { text: "ab".parse().unwrap(), scope: FolderScope::All, page: Page::default() };
        let guard = ann.lock_for_search().await;
        assert!(matches!(index.search(&ann, Vec::new(), &query).await, Err(IndexError::Busy)));
        assert_eq!(index.search(&bob, Vec::new(), &query).await.unwrap().total, 0);
        drop(guard);
        assert_eq!(index.search(&ann, Vec::new(), &query).await.unwrap().total, 0);
    }

    #[tokio::test]
    async fn only_an_unused_index_is_removed() {
        let directory = TempDir::new().unwrap();
        let settings = SearchSettings::new(directory.path());
        fs::write(directory.path().join("foreign"), b"").unwrap();
        let index = index(settings.clone());
        let ann = open(&index, "ann").await;
        let before = names(&directory);
        SearchIndex::remove_unused(&settings);
        assert_eq!(names(&directory), before, "another process uses it");
        drop((index, ann));
        SearchIndex::remove_unused(&settings);
        assert_eq!(names(&directory), ["foreign", "lock"]);
    }

    #[tokio::test]
    async fn every_mailbox_is_looked_at_in_turn() {
        let directory = TempDir::new().unwrap();
        let index = index(SearchSettings { tidy_mailboxes: 2, ..SearchSettings::new(directory.path()) });
        for local in ["bob", "ann", "eve"] {
            open(&index, local).await;
        }
        let mut looked_at = Vec::new();
        for _ in 0..3 {
            for mailbox in index.next_to_look_at().await {
                index.note_look(&mailbox);
                looked_at.push(mailbox.to_string());
            }
        }
        let expected = ["ann", "bob", "eve", "ann", "bob"].map(|local| format!("{local}@example.org"));
        assert_eq!(looked_at, expected);
    }
}
