//! A local index for searches of the operator's IMAP server.
//!
//! Each searched mailbox has a file with the texts of its messages and their trigrams. It is filled from the IMAP
//! server folder by folder in UID order. The text of a message never changes under its UID. So the file can be
//! incomplete but never wrong. Before each search it is compared with the server's STATUS and updated. All of it can
//! be rebuilt, so a damaged file is simply removed.
//!
//! This module stores the index; `mailboxes::search` reads from the server and decides which of the two answers.

mod catalogue;
mod directory;
mod error;
mod find;
mod indexed_folder;
mod mailbox_index;
mod settings;
mod tables;
mod waiting;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mailapi_backend::{SearchHit, SearchQuery};
use mailapi_model::{Clock, EmailAddress, Listed};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use crate::blocking::blocking;
use directory::Directory;
use waiting::Waiting;

pub(crate) use error::IndexError;
pub(crate) use find::Searched;
pub(crate) use indexed_folder::{IndexedFolder, ReportedFolder};
pub(crate) use mailbox_index::{IndexWriter, MailboxIndex};
pub use settings::{IndexUse, SearchSettings};
pub(crate) use tables::Entry;
pub(crate) use waiting::Request;

/// The indexes of all mailboxes, in their own directory.
pub struct SearchIndex {
    settings: Arc<SearchSettings>,
    clock: Arc<dyn Clock>,
    /// `None` until needed, and while another process uses it.
    directory: Arc<Mutex<Option<Directory>>>,
    waiting: Mutex<Waiting>,
    asked: Notify,
    searches: Arc<Semaphore>,
    /// The indexed mailbox that was last checked on the server.
    looked_at: Mutex<String>,
}

impl SearchIndex {
    /// Creates the index. Nothing is opened until the first search.
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

    /// Returns a mailbox's index; `None` if it is currently unavailable, so that the server has to search.
    pub(crate) async fn open(&self, mailbox: &EmailAddress) -> Option<Arc<MailboxIndex>> {
        if let Some(index) = self.opened(mailbox) {
            return Some(index);
        }
        let (of, now) = (mailbox.clone(), self.clock.now());
        let opened = self.with_directory(move |directory| directory.index(&of, now)).await;
        match opened {
            Ok(index) => index.flatten(),
            Err(error) => {
                tracing::warn!(%mailbox, %error, "could not open the search index of a mailbox");
                None
            }
        }
    }

    /// Returns an open index without disk access, and without waiting for the directory's lock.
    fn opened(&self, mailbox: &EmailAddress) -> Option<Arc<MailboxIndex>> {
        self.directory.try_lock().ok()?.as_ref()?.opened(mailbox)
    }

    /// Searches folders that are completely indexed. Returns [`IndexError::Busy`] if the permits are taken for too
    /// long.
    pub(crate) async fn search(
        &self,
        index: &Arc<MailboxIndex>,
        folders: Vec<Searched>,
        query: &SearchQuery,
    ) -> Result<Listed<SearchHit>, IndexError> {
        index.note_search(self.clock.now());
        let guards = async {
            // The mailbox's permit first: a caller that waits for it must not occupy one of the shared permits.
            let own = index.lock_for_search().await;
            let closed = |_| IndexError::Unusable("it is closed".to_owned());
            Ok::<_, IndexError>((own, Arc::clone(&self.searches).acquire_owned().await.map_err(closed)?))
        };
        let guard = timeout(self.settings.wait_timeout, guards).await.unwrap_or(Err(IndexError::Busy))?;
        index.search(folders, query, guard).await
    }

    /// Removes the index of a mailbox that is gone, or whose index is unusable.
    pub(crate) async fn erase(&self, mailbox: &EmailAddress) {
        let of = mailbox.clone();
        if let Err(error) = self.with_directory(move |directory| directory.erase(&of)).await {
            tracing::warn!(%mailbox, %error, "could not remove the search index of a mailbox");
        }
    }

    /// Removes indexes that are too old or exceed the limit.
    pub(crate) async fn prune(&self) {
        if !self.settings.directory.exists() {
            return;
        }
        let now = self.clock.now();
        if let Err(error) = self.with_directory(move |directory| directory.prune(now)).await {
            tracing::warn!(%error, "could not prune the search index");
        }
    }

    /// Returns some indexed mailboxes, after the one that was last checked.
    pub(crate) async fn next_to_look_at(&self) -> Vec<EmailAddress> {
        let (behind, count) = (lock(&self.looked_at).clone(), self.settings.tidy_mailboxes);
        if count == 0 || !self.settings.directory.exists() {
            return Vec::new();
        }
        match self.with_directory(move |directory| directory.mailboxes_behind(&behind, count)).await {
            Ok(mailboxes) => mailboxes.unwrap_or_default(),
            Err(error) => {
                tracing::warn!(%error, "could not read the search index");
                Vec::new()
            }
        }
    }

    /// Notes that a mailbox is checked on the server.
    pub(crate) fn note_look(&self, mailbox: &EmailAddress) {
        *lock(&self.looked_at) = mailbox.to_string();
    }

    /// Removes the files of an index that is turned off. Blocks.
    pub(crate) fn remove_unused(settings: &SearchSettings) {
        if let Err(error) = Directory::remove_all(&settings.directory) {
            tracing::warn!(%error, "could not remove the search index");
        }
    }

    /// Requests background indexing of a searched mailbox.
    pub(crate) fn ask_for(&self, request: Request) {
        if lock(&self.waiting).push(request, self.settings.max_waiting) {
            self.asked.notify_one();
        }
    }

    /// Returns the next waiting request.
    pub(crate) fn next_request(&self) -> Option<Request> {
        lock(&self.waiting).pop()
    }

    /// Waits for a request that arrived since the last call.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// Runs a job with the directory on a blocking thread; `None` while another process uses it.
    async fn with_directory<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Directory) -> Result<T, IndexError> + Send + 'static,
    ) -> Result<Option<T>, IndexError> {
        let (shared, settings) = (self.directory.clone(), self.settings.clone());
        let outcome = blocking(move || {
            let mut directory = lock(&shared);
            if directory.is_none() {
                *directory = Directory::open(&settings)?;
            }
            directory.as_mut().map(job).transpose()
        });
        outcome.await.unwrap_or_else(|| Err(IndexError::Unusable("the task was interrupted".to_owned())))
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
