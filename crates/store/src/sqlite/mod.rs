//! The SQLite engine: one writer thread that groups jobs into commits, a pool of readers, migrations.
//!
//! SQLite lets one connection write at a time. A pool of writers would sleep in back-off; one thread that takes all
//! waiting jobs into one transaction pays one `fsync` for all of them, and every answer still means "on disk". Another
//! thread waits for that `fsync`, while the writer is at the next group.

mod failure;
mod flusher;
mod follower;
mod foreign;
mod held;
mod migrate;
mod open;
mod readers;
mod search;
mod settings;
mod writer;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rusqlite::Connection;

pub use crate::migration::Migration;
use crate::{ForeignChanges, StoreError};
use flusher::LogFile;
pub use follower::{Followed, FollowsAccounts};
pub(crate) use foreign::ForeignSqlite;
pub(crate) use held::FileHeld;
use held::HeldFile;
use readers::{Owner, Readers};
pub use settings::SqliteSettings;
use writer::{Answered, Writer};

/// A handle on one SQLite database file; clones share it.
///
/// Several handles on one file, in one process or in several, are safe. When the last clone goes, the jobs that wait
/// are still written and the write-ahead log is folded into the file.
#[derive(Clone, Debug)]
pub struct Sqlite(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    // Fields drop in this order: the readers' connections must be gone before the writer's last checkpoint.
    readers: Readers,
    writer: Writer,
    follower: OnceLock<Arc<dyn FollowsAccounts>>,
    held: HeldFile,
}

impl Sqlite {
    /// Opens the file, and creates it, readable by its owner alone, when it is missing.
    ///
    /// This blocks on the disk for some milliseconds: call it while starting up.
    ///
    /// # Errors
    /// When the file cannot be opened, is no SQLite database, or stays locked by another process.
    pub fn open(path: &Path, settings: SqliteSettings) -> Result<Self, StoreError> {
        let connection = open::writer(path, &settings)?;
        let writer = Writer::start(connection, LogFile::of(path)?, settings.clone())?;
        let readers = Readers::new(path.to_owned(), settings, Owner::Mailapi);
        let (follower, held) = (OnceLock::new(), HeldFile::beside(path));
        Ok(Self(Arc::new(Inner { readers, writer, follower, held })))
    }

    /// Makes mailboxes in this file follow the accounts, for all clones. Only the first follower counts.
    pub fn follow_accounts(&self, follower: Arc<dyn FollowsAccounts>) {
        // A second follower would cover the same tables again.
        let _ = self.0.follower.set(follower);
    }

    pub(crate) fn follower(&self) -> Option<Arc<dyn FollowsAccounts>> {
        self.0.follower.get().cloned()
    }

    /// Keeps other processes on this file from operations on names until the lock is dropped.
    pub(crate) async fn hold_file(&self) -> Result<Arc<FileHeld>, StoreError> {
        self.0.held.hold().await
    }

    /// Runs `job` on the writer, inside a savepoint of the current group, and answers after the commit is on disk.
    ///
    /// A job that answers `Err` or panics is rolled back alone. Jobs run one after the other in the order of their
    /// calls, so keep them short and free of waiting. The job must leave transactions to the engine. Once the job is
    /// queued it runs, also when the caller no longer waits.
    ///
    /// # Errors
    /// What the job answers; [`StoreError::Unavailable`] when the commit failed, when the disk failed earlier or when the
    /// database is closed (then nothing was kept); [`StoreError::DiskFailed`] when the disk failed behind the commit (then
    /// nobody knows, and nothing is written any more until the file is opened again); [`StoreError::Panicked`].
    pub async fn write<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.0.writer.write(Answered::OnDisk, job).await
    }

    /// Runs `job` as [`Sqlite::write`] does, in the same order, and answers after the commit without waiting for the
    /// disk. From then on everybody sees it, and a crash of this process takes nothing away. When the machine loses
    /// power, it may be gone, with everything that was written after it: nothing that is on disk follows something that
    /// is not. Within [`SqliteSettings::foreign_check`] or so it is on disk, too.
    ///
    /// For what can be found out again after such a loss, or is worth nothing without what is written next.
    ///
    /// # Errors
    /// As [`Sqlite::write`].
    pub async fn write_in_order<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.0.writer.write(Answered::InOrder, job).await
    }

    /// Answers when everything that anybody sees now is on disk, for whoever tells of it where it is kept by others: what
    /// is committed is seen a moment before it is on disk.
    ///
    /// # Errors
    /// As [`Sqlite::write`].
    pub async fn flushed(&self) -> Result<(), StoreError> {
        // A flush that begins behind this commit takes in everything before it.
        self.write(|_| Ok(())).await
    }

    /// Whether what is written is still kept.
    ///
    /// # Errors
    /// Why not: the disk failed, and the file must be opened again.
    pub fn keeps(&self) -> Result<(), StoreError> {
        self.0.writer.keeps()
    }

    /// Runs a short `job` in a read transaction on the calling thread: for look-ups by key and single pages.
    ///
    /// Handing a look-up to another thread costs more than the look-up. What may take longer than about a
    /// millisecond belongs into [`Sqlite::scan`].
    ///
    /// # Errors
    /// What the job answers; [`StoreError::Unavailable`] when the database is closed; [`StoreError::Panicked`].
    pub async fn read<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E>,
        E: From<StoreError>,
    {
        self.0.readers.read(job).await
    }

    /// As [`Sqlite::read`], for a `job` that runs one statement and no other: that sees one state of the database without
    /// a transaction around it, which costs about as much as a look-up.
    ///
    /// # Errors
    /// As [`Sqlite::read`].
    pub async fn read_one<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E>,
        E: From<StoreError>,
    {
        self.0.readers.read_one(job).await
    }

    /// Runs a long `job` (a search, a big count) in a read transaction on a thread that may block. Long jobs have
    /// connections of their own, so they never hold up [`Sqlite::read`].
    ///
    /// # Errors
    /// As [`Sqlite::read`].
    pub async fn scan<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (readers, permit) = self.0.readers.begin_scan().await?;
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            readers.run(job)
        })
        .await
        // A panic was caught inside: the runtime is shutting down.
        .unwrap_or_else(|_| Err(StoreError::closed().into()))
    }

    /// Counts the calls of [`Sqlite::write`]. Work that can wait looks at it, and leaves the writer to those who are
    /// waiting for an answer.
    #[must_use]
    pub fn writes_begun(&self) -> u64 {
        self.0.writer.begun()
    }

    /// Counts the changes that others (another process, another handle) made to the file since it was opened. It is
    /// looked at before each group and every [`SqliteSettings::foreign_check`] when idle. Who caches rows waits on
    /// this and drops what is cached.
    #[must_use]
    pub fn foreign_changes(&self) -> ForeignChanges {
        self.0.writer.foreign_changes()
    }

    /// Writes what waits, folds the write-ahead log into the file and closes it. Later calls, on all clones, answer
    /// [`StoreError::Unavailable`].
    pub async fn close(&self) {
        self.0.readers.close();
        self.0.writer.close().await;
    }
}

/// Calls `job` and turns a panic into an error. The caller must roll back whatever the job did.
fn run_guarded<T, E: From<StoreError>>(
    job: impl FnOnce(&Connection) -> Result<T, E>,
    connection: &Connection,
) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(|| job(connection))).unwrap_or_else(|_| Err(StoreError::Panicked.into()))
}
