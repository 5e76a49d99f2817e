//! The index of one mailbox: its file, and its state in memory.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mailapi_backend::{SearchHit, SearchQuery};
use mailapi_model::{EmailAddress, FolderName, Listed, Timestamp};
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard as AsyncMutexGuard, OwnedSemaphorePermit};

use super::error::IndexError;
use super::find::{self, Searched};
use super::indexed_folder::{FolderId, IndexedFolder};
use super::settings::SearchSettings;
use super::tables::{self, Entry};
use crate::blocking::blocking;

/// Owner only: the file contains the text of mail.
const FILE_MODE: u32 = 0o600;
const BYTES_IN_A_KIB: u64 = 1024;

/// The open index of one mailbox.
pub(crate) struct MailboxIndex {
    file: PathBuf,
    settings: Arc<SearchSettings>,
    idle: Mutex<Vec<Connection>>,
    /// A copy of the file's state. It is exact, since only one process opens the file.
    folders: Mutex<HashMap<FolderName, IndexedFolder>>,
    writing: Arc<AsyncMutex<()>>,
    searching: Arc<AsyncMutex<()>>,
    last_searched: AtomicI64,
    is_dropped: AtomicBool,
}

/// The exclusive right to change an index.
pub(crate) struct IndexWriter {
    index: Arc<MailboxIndex>,
    /// Each job shares the permit, because it may continue after its caller was cancelled.
    guard: Arc<AsyncMutexGuard<()>>,
}

/// The right to search an index: the permit of its mailbox, and one of all mailboxes together.
pub(super) type SearchPermit = (AsyncMutexGuard<()>, OwnedSemaphorePermit);

impl MailboxIndex {
    /// Opens the file, and creates it if needed. Blocks.
    pub(super) fn open(
        file: PathBuf,
        mailbox: &EmailAddress,
        settings: Arc<SearchSettings>,
        last_searched: Timestamp,
    ) -> Result<Self, IndexError> {
        let mut connection = connect(&file, &settings)?;
        tables::prepare(&mut connection, mailbox)?;
        let folders = tables::folders(&connection)?.into_iter().collect();
        Ok(Self {
            file,
            settings,
            idle: Mutex::new(vec![connection]),
            folders: Mutex::new(folders),
            writing: Arc::default(),
            searching: Arc::default(),
            last_searched: AtomicI64::new(last_searched.as_millis()),
            is_dropped: AtomicBool::new(false),
        })
    }

    /// Returns the state of a folder.
    pub(crate) fn folder(&self, name: &FolderName) -> Option<IndexedFolder> {
        lock(&self.folders).get(name).copied()
    }

    /// Returns the names of the folders in the index.
    pub(crate) fn folder_names(&self) -> Vec<FolderName> {
        lock(&self.folders).keys().cloned().collect()
    }

    /// Waits for the right to change the index.
    pub(crate) async fn write(self: &Arc<Self>) -> IndexWriter {
        let guard = Arc::clone(&self.writing).lock_owned().await;
        IndexWriter { index: Arc::clone(self), guard: Arc::new(guard) }
    }

    /// Waits for the mailbox's search permit. There is one per mailbox, because a search may read every text.
    pub(super) async fn lock_for_search(&self) -> AsyncMutexGuard<()> {
        Arc::clone(&self.searching).lock_owned().await
    }

    /// Searches folders that are completely indexed. Holds the permits until the end, even if the caller is
    /// cancelled.
    pub(super) async fn search(
        self: &Arc<Self>,
        folders: Vec<Searched>,
        query: &SearchQuery,
        guard: SearchPermit,
    ) -> Result<Listed<SearchHit>, IndexError> {
        let (query, give_up) = (query.clone(), Instant::now() + self.settings.search_timeout);
        let job = move |connection: &mut Connection, _: &Self| {
            let _guard = guard;
            find::search(connection, &folders, &query, give_up)
        };
        self.run(job).await
    }

    pub(super) fn note_search(&self, at: Timestamp) {
        self.last_searched.fetch_max(at.as_millis(), Ordering::Relaxed);
    }

    pub(super) fn last_searched(&self) -> Timestamp {
        Timestamp::from_millis(self.last_searched.load(Ordering::Relaxed))
    }

    /// Marks the files for removal when the last user drops the index.
    pub(super) fn drop_files(&self) {
        self.is_dropped.store(true, Ordering::Release);
    }

    /// Runs a job on a blocking thread with its own connection.
    async fn run<T, F>(self: &Arc<Self>, job: F) -> Result<T, IndexError>
    where
        F: FnOnce(&mut Connection, &Self) -> Result<T, IndexError> + Send + 'static,
        T: Send + 'static,
    {
        let index = Arc::clone(self);
        let outcome = blocking(move || {
            let kept = lock(&index.idle).pop();
            let mut connection = match kept {
                Some(connection) => connection,
                None => connect(&index.file, &index.settings)?,
            };
            let outcome = job(&mut connection, &index);
            // After other errors the connection may be in any state.
            if matches!(outcome, Ok(_) | Err(IndexError::TooLong)) {
                index.keep(connection);
            }
            outcome
        });
        outcome.await.unwrap_or_else(|| Err(IndexError::Unusable("the task was interrupted".to_owned())))
    }

    fn keep(&self, connection: Connection) {
        let mut idle = lock(&self.idle);
        if idle.len() < self.settings.connections {
            idle.push(connection);
        }
    }

    fn remember(&self, name: &FolderName, state: IndexedFolder) {
        lock(&self.folders).insert(name.clone(), state);
    }
}

impl Drop for MailboxIndex {
    fn drop(&mut self) {
        // Closing the last connection merges the write-ahead log into the file.
        lock(&self.idle).clear();
        if self.is_dropped.load(Ordering::Acquire) {
            remove_files(&self.file);
        }
    }
}

impl IndexWriter {
    /// Returns the state of a folder, and creates it if needed. A changed UIDVALIDITY discards the old state.
    pub(crate) async fn put_folder(&self, name: &FolderName, uid_validity: u32) -> Result<IndexedFolder, IndexError> {
        let name = name.clone();
        let job = move |connection: &mut Connection, index: &MailboxIndex| {
            let state = tables::put_folder(connection, &name, uid_validity)?;
            index.remember(&name, state);
            Ok(state)
        };
        self.run(job).await
    }

    /// Drops these folders.
    pub(crate) async fn drop_folders(&self, names: Vec<FolderName>) -> Result<(), IndexError> {
        let job = move |connection: &mut Connection, index: &MailboxIndex| {
            tables::drop_folders(connection, &names)?;
            lock(&index.folders).retain(|known, _| !names.contains(known));
            Ok(())
        };
        self.run(job).await
    }

    /// Adds messages, and stores that the folder is indexed up to the UID `covered`.
    pub(crate) async fn put(
        &self,
        name: &FolderName,
        state: IndexedFolder,
        entries: Vec<Entry>,
        covered: u32,
    ) -> Result<IndexedFolder, IndexError> {
        let name = name.clone();
        let job = move |connection: &mut Connection, index: &MailboxIndex| {
            let max_indexed = index.settings.max_indexed_bytes;
            let state = tables::put(connection, state, &entries, covered, max_indexed)?;
            index.remember(&name, state);
            Ok(state)
        };
        self.run(job).await
    }

    /// Removes messages.
    pub(crate) async fn remove(
        &self,
        name: &FolderName,
        state: IndexedFolder,
        uids: Vec<u32>,
    ) -> Result<IndexedFolder, IndexError> {
        let name = name.clone();
        let job = move |connection: &mut Connection, index: &MailboxIndex| {
            let state = tables::remove(connection, state, &uids)?;
            index.remember(&name, state);
            Ok(state)
        };
        self.run(job).await
    }

    /// Returns the UIDs of a folder's messages in the index, ascending.
    pub(crate) async fn uids(&self, folder: FolderId) -> Result<Vec<u32>, IndexError> {
        self.run(move |connection, _| tables::uids(connection, folder)).await
    }

    async fn run<T, F>(&self, job: F) -> Result<T, IndexError>
    where
        F: FnOnce(&mut Connection, &MailboxIndex) -> Result<T, IndexError> + Send + 'static,
        T: Send + 'static,
    {
        let guard = Arc::clone(&self.guard);
        let job = move |connection: &mut Connection, index: &MailboxIndex| {
            let _guard = guard;
            job(connection, index)
        };
        self.index.run(job).await
    }

    /// Removes up to `limit` messages of dropped folders. Returns whether more may remain.
    pub(crate) async fn collect_garbage(&self, limit: usize) -> Result<bool, IndexError> {
        self.run(move |connection, _| Ok(tables::collect_garbage(connection, limit)? > 0)).await
    }
}

pub(super) fn connect(file: &Path, settings: &SearchSettings) -> Result<Connection, IndexError> {
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).mode(FILE_MODE).open(file) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
        _ => {}
    }
    // Each connection is used by one thread at a time, so SQLite's own mutex is unnecessary.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(settings.busy_timeout)?;
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    // In WAL mode, NORMAL can lose the last transactions in a power failure but keeps the file consistent. They are
    // indexed again.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // A negative cache size is in KiB, a positive one in pages.
    let cache = i64::try_from(settings.page_cache_bytes / BYTES_IN_A_KIB).unwrap_or(i64::MAX);
    connection.pragma_update(None, "cache_size", -cache)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

/// Returns the file and its SQLite companions.
fn files_of(file: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|end| {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    })
}

/// Returns the size of an index on disk in bytes.
pub(super) fn bytes_of(file: &Path) -> u64 {
    files_of(file).iter().filter_map(|file| fs::metadata(file).ok()).map(|data| data.len()).sum()
}

pub(super) fn remove_files(file: &Path) {
    for file in files_of(file) {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(%error, file = %file.display(), "could not remove a file of the search index");
            }
            _ => {}
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
