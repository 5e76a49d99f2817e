//! The SQLite engine: one writer thread that groups jobs into commits, a pool of readers, and migrations.
//!
//! SQLite lets one connection write at a time, and a pool of writers would sleep in back-off. One thread runs
//! all waiting jobs in one transaction and pays one `fsync` for all of them; every answer still means "on
//! disk". A second thread waits for that `fsync` while the writer runs the next group.

mod copy;
mod disk_room;
mod failure;
mod flusher;
mod follower;
mod foreign;
mod held;
mod home;
mod home_record;
mod job;
mod left_behind;
mod migrate;
mod open;
mod readers;
mod reserve;
mod schema;
mod search;
mod settings;
mod snapshot;
mod writer;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::fact_numbers::FactNumbers;
pub use crate::migration::{Migration, Schema};
use crate::{ForeignChanges, StoreError};
pub use copy::{CopyTarget, check_database, copy_database};
use disk_room::DiskRoom;
use flusher::LogFile;
pub use follower::{Followed, FollowsAccounts};
pub(crate) use foreign::ForeignSqlite;
pub(crate) use held::FileHeld;
use held::HeldFile;
use home::FileHome;
pub use home_record::{HomeRecord, UnknownRecord};
use job::Answered;
use readers::{Owner, Readers};
pub use reserve::reserve_of;
pub use schema::remove_foreign_code;
pub use settings::SqliteSettings;
pub use snapshot::DatabaseSnapshot;
use writer::Writer;

/// A SQLite database file; clones share it.
///
/// Several handles on one file are safe, in one process or in several. Dropping the last clone writes the
/// waiting jobs and checkpoints the write-ahead log.
#[derive(Clone, Debug)]
pub struct Sqlite(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    // Fields drop in this order: the readers must be closed before the writer's last checkpoint.
    readers: Readers,
    writer: Writer,
    follower: OnceLock<Arc<dyn FollowsAccounts>>,
    held: HeldFile,
    facts: FactNumbers,
    home: HomeRecord,
    full: Arc<AtomicBool>,
}

impl Sqlite {
    /// Opens the file. A missing file is created with access for its owner only.
    ///
    /// Blocks on the disk for some milliseconds, so call it at start-up only.
    ///
    /// # Errors
    /// When the file cannot be opened, is not a SQLite database, or stays locked by another process.
    pub fn open(path: &Path, settings: SqliteSettings) -> Result<Self, StoreError> {
        let full = Arc::new(AtomicBool::new(false));
        let (connection, room) = open_with_room(path, &settings, &full)?;
        let writer: i64 = connection.query_row("SELECT random()", [], |row| row.get(0))?;
        let facts = FactNumbers::of(writer.cast_unsigned());
        let place = FileHome::of(path)?;
        let home = place.record();
        let writer = Writer::start(connection, LogFile::of(path)?, (place, room), settings.clone())?;
        // Readers open the writer's files alone. A server that ran at the start may have ended since, and removed its log.
        let settings = SqliteSettings { served: Some(home), ..settings };
        let readers = Readers::new(path.to_owned(), settings, Owner::Mailapi);
        let (follower, held) = (OnceLock::new(), HeldFile::beside(path));
        Ok(Self(Arc::new(Inner { readers, writer, follower, held, facts, home, full })))
    }

    /// Returns the identities of the open files, for a server to record.
    #[must_use]
    pub fn home(&self) -> HomeRecord {
        self.0.home
    }

    /// Makes mailboxes in this file follow the accounts, for all clones. Only the first follower is used.
    pub fn follow_accounts(&self, follower: Arc<dyn FollowsAccounts>) {
        // A second follower would cover the same tables again.
        let _ = self.0.follower.set(follower);
    }

    pub(crate) fn facts(&self) -> &FactNumbers {
        &self.0.facts
    }

    /// Returns whether both are clones of one handle, which one writer serves.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns whether mailboxes in this file follow the accounts.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        self.0.follower.get().is_some()
    }

    pub(crate) fn follower(&self) -> Option<Arc<dyn FollowsAccounts>> {
        self.0.follower.get().cloned()
    }

    /// Excludes other processes on this file from operations on names until the lock is dropped.
    pub(crate) async fn hold_file(&self) -> Result<Arc<FileHeld>, StoreError> {
        self.0.held.hold().await
    }

    /// Runs `job` on the writer, inside a savepoint of the current group; returns after the commit is on
    /// disk.
    ///
    /// A job that returns `Err` or panics is rolled back alone. Jobs run one after the other in call order,
    /// so keep them short and never block in them. A job must not begin or end transactions. Once queued, a
    /// job runs even if the caller stops waiting.
    ///
    /// # Errors
    /// The job's own error; [`StoreError::Panicked`]; [`StoreError::Unavailable`] when the commit failed, the
    /// disk failed earlier, or the database is closed: nothing was stored. [`StoreError::DiskFailed`] when
    /// the disk failed after the commit: durability is unknown, and writes fail until the file is opened
    /// again.
    pub async fn write<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.0.writer.write(Answered::OnDisk, job).await
    }

    /// Runs a `job` that makes room, like [`Sqlite::write`]. On a full disk it uses the reserve, and is run a second time if
    /// it failed before.
    ///
    /// # Errors
    /// As [`Sqlite::write`].
    pub async fn write_freeing<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: Fn(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.0.writer.write_freeing(job).await
    }

    /// Returns whether the disk has room for changes besides deletions.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`] if it has none.
    pub fn has_room(&self) -> Result<(), StoreError> {
        if self.0.full.load(Ordering::Relaxed) { Err(StoreError::DiskFull) } else { Ok(()) }
    }

    /// Returns the bytes in the file that no data uses.
    ///
    /// # Errors
    /// As [`Sqlite::read`].
    pub async fn free_bytes(&self) -> Result<u64, StoreError> {
        self.read(disk_room::free_bytes).await
    }

    /// Runs `job` like [`Sqlite::write`], in the same order, but returns after the commit without waiting for
    /// the disk.
    ///
    /// The change is then visible and survives a crash of this process. A power failure may lose it, together
    /// with everything written later; commits reach the disk in order, usually within
    /// [`SqliteSettings::foreign_check`].
    ///
    /// Use it for changes that can be reconstructed, or that are useless without the next write.
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

    /// Waits until everything visible to readers is durable.
    ///
    /// Commits are visible a moment before they are on disk. Call this before another system stores something
    /// that depends on them.
    ///
    /// # Errors
    /// As [`Sqlite::write`].
    pub async fn flushed(&self) -> Result<(), StoreError> {
        // This commit's flush also covers every earlier commit.
        self.write(|_| Ok(())).await
    }

    /// Returns whether writes are still possible.
    ///
    /// # Errors
    /// When the disk has failed; the file must be opened again.
    pub fn keeps(&self) -> Result<(), StoreError> {
        self.0.writer.keeps()
    }

    /// Runs a short `job` in a read transaction on the calling thread: look-ups by key and single pages.
    ///
    /// Moving a look-up to another thread costs more than the look-up itself. Use [`Sqlite::scan`] for jobs
    /// longer than about a millisecond.
    ///
    /// # Errors
    /// The job's own error; [`StoreError::Unavailable`] when the database is closed;
    /// [`StoreError::Panicked`].
    pub async fn read<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E>,
        E: From<StoreError>,
    {
        self.0.readers.read(job).await
    }

    /// Like [`Sqlite::read`], for a `job` of exactly one statement. One statement sees one snapshot without a
    /// transaction, which would cost about as much as a look-up.
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

    /// Runs a long `job` (a search, a big count) in a read transaction on a blocking thread. Long jobs have
    /// their own connections, so they never delay [`Sqlite::read`].
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
        let (caller, outcome) = oneshot::channel();
        // One type for all jobs: each type that tokio runs adds some 3 KB of its code to the program.
        let job: Box<dyn FnOnce() + Send> = Box::new(move || {
            let outcome = readers.run(job);
            drop(permit);
            // A caller that is gone does not wait for the outcome.
            let _ = caller.send(outcome);
        });
        tokio::task::spawn_blocking(job);
        // The job's own panic is caught inside, so the runtime is shutting down.
        outcome.await.unwrap_or_else(|_| Err(StoreError::closed().into()))
    }

    /// Begins a read transaction for several jobs, such as those of an export. It counts as a long job
    /// ([`Sqlite::scan`]).
    ///
    /// # Errors
    /// If the database is closed, or its file cannot be opened.
    pub async fn snapshot(&self) -> Result<DatabaseSnapshot, StoreError> {
        self.0.readers.begin_snapshot().await
    }

    /// Returns the number of calls of [`Sqlite::write`] so far. Background work yields to the writer while
    /// this grows.
    #[must_use]
    pub fn writes_begun(&self) -> u64 {
        self.0.writer.begun()
    }

    /// Returns the counter of changes that other processes and handles made to the file since it was opened.
    ///
    /// Updated before each group and, when idle, every [`SqliteSettings::foreign_check`]. Caches of rows wait
    /// on it and discard their entries.
    #[must_use]
    pub fn foreign_changes(&self) -> ForeignChanges {
        self.0.writer.foreign_changes()
    }

    /// Writes the waiting jobs, checkpoints the write-ahead log and closes the file. Later calls, on all
    /// clones, return [`StoreError::Unavailable`].
    pub async fn close(&self) {
        self.0.readers.close();
        self.0.writer.close().await;
    }
}

/// Opens the connection of the writer. On a full disk, SQLite needs the reserve to create the log and its index.
fn open_with_room(
    path: &Path,
    settings: &SqliteSettings,
    full: &Arc<AtomicBool>,
) -> Result<(Connection, Option<DiskRoom>), StoreError> {
    let opened = open::writer(path, settings);
    if matches!(opened, Err(StoreError::Moved(_))) {
        // Nothing is created beside a file that must not be opened.
        return opened.map(|connection| (connection, None));
    }
    let room = DiskRoom::beside(path, settings, Arc::clone(full));
    let connection = match (opened, &room) {
        (Err(error), Some(room)) if room.is_reason_for(&error) => room.open_again(|| open::writer(path, settings))?,
        (opened, _) => opened?,
    };
    if let Some(room) = &room {
        room.begin();
    }
    Ok((connection, room))
}

/// Calls `job` and turns a panic into an error. The caller must roll back the job's changes.
fn run_guarded<T, E: From<StoreError>>(
    job: impl FnOnce(&Connection) -> Result<T, E>,
    connection: &Connection,
) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(|| job(connection))).unwrap_or_else(|_| Err(StoreError::Panicked.into()))
}
