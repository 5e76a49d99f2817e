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
    searches: Semaphore,
}

impl SearchIndex {
    /// Nothing is opened until the first search.
    #[must_use]
    pub fn new(settings: SearchSettings, clock: Arc<dyn Clock>) -> Self {
        let searches = Semaphore::new(settings.connections.max(1));
        Self {
            settings: Arc::new(settings),
            clock,
            directory: Arc::default(),
            waiting: Mutex::default(),
            asked: Notify::new(),
            searches,
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

    /// Searches folders that are known to be whole.
    pub(crate) async fn search(
        &self,
        index: &Arc<MailboxIndex>,
        folders: Vec<Searched>,
        query: &SearchQuery,
    ) -> Result<Listed<SearchHit>, IndexError> {
        index.note_search(self.clock.now());
        let closed = |_| IndexError::Unusable("it is closed".to_owned());
        let _turn = self.searches.acquire().await.map_err(closed)?;
        index.search(folders, query).await
    }

    /// Drops what is known of a mailbox: it is gone, or its index is of no use.
    pub(crate) async fn erase(&self, mailbox: &EmailAddress) {
        let of = mailbox.clone();
        if let Err(error) = self.with_directory(move |directory| directory.erase(&of)).await {
            tracing::warn!(%mailbox, %error, "the search index of a mailbox cannot be removed");
        }
    }

    /// Removes what is too old or too much.
    pub(crate) async fn tidy(&self) {
        if !self.settings.directory.exists() {
            return;
        }
        let now = self.clock.now();
        if let Err(error) = self.with_directory(move |directory| directory.tidy(now)).await {
            tracing::warn!(%error, "the search index cannot be tidied");
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
