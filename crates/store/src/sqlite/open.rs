//! Opens and configures connections.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::SqliteSettings;
use crate::StoreError;

/// Pause between attempts to switch a new file to write-ahead logging.
const WAL_RETRY: Duration = Duration::from_millis(5);

/// How often the writer looks for a lock that another process holds. SQLite's own pauses grow to 100 ms. Between two
/// transactions of a process that writes all the time, such as an import, the lock is free for some milliseconds only.
const LOCK_RETRY: Duration = Duration::from_millis(1);

/// Opens the connection of the writer thread; creates a missing file.
pub(super) fn writer(path: &Path, settings: &SqliteSettings) -> Result<Connection, StoreError> {
    check_served(path, settings)?;
    create_private(path)?;
    let mut connection = open_served(path, settings, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    look_often_for_the_lock(&mut connection, settings.busy_timeout)?;
    use_write_ahead_log(&connection, settings)?;
    // A commit only writes. The flusher thread flushes the log before a job is answered as durable.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", settings.checkpoint_pages)?;
    let wal_limit = i64::try_from(settings.wal_limit_bytes).unwrap_or(i64::MAX);
    connection.pragma_update_and_check(None, "journal_size_limit", wal_limit, |_| Ok(()))?;
    tune(&connection, settings, settings.writer_cache_kib)?;
    keep_what_is_there(&connection)?;
    Ok(connection)
}

/// Sets how long the connection waits for a lock.
pub(super) fn look_often_for_the_lock(connection: &mut Connection, patience: Duration) -> Result<(), StoreError> {
    let mut began = Instant::now();
    let may_go_on = move |earlier_looks| {
        if earlier_looks == 0 {
            began = Instant::now();
        }
        let may_go_on = began.elapsed() < patience;
        if may_go_on {
            thread::park_timeout(LOCK_RETRY);
        }
        may_go_on
    };
    Ok(connection.busy_handler(Some(may_go_on))?)
}

/// Checkpoints the log at start-up.
///
/// If an earlier process was killed or failed to flush, its commits may exist only in the kernel's memory. A
/// checkpoint writes and flushes them again. Another process that reads or checkpoints at this moment may
/// leave some of it for the next time.
fn keep_what_is_there(connection: &Connection) -> Result<(), StoreError> {
    match connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).map_err(StoreError::from) {
        // SQLite flushes the log before it enlarges the database.
        Err(StoreError::DiskFull) => Ok(()),
        checkpointed => checkpointed,
    }
}

/// Opens one more reader connection.
pub(super) fn reader(path: &Path, settings: &SqliteSettings, cache_kib: u32) -> Result<Connection, StoreError> {
    check_served(path, settings)?;
    let connection = open_served(path, settings, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(settings.busy_timeout)?;
    tune(&connection, settings, cache_kib)?;
    Ok(connection)
}

/// Checks that a running server has these files open, before SQLite reads or creates one.
fn check_served(path: &Path, settings: &SqliteSettings) -> Result<(), StoreError> {
    settings.served.map_or(Ok(()), |served| served.check(path))
}

/// Opens the file, and checks it once more before the first statement opens the log. The server may have closed the log
/// since the first check, so only the database counts.
fn open_served(path: &Path, settings: &SqliteSettings, access: OpenFlags) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(path, flags(access, settings.follows_links))?;
    settings.served.map_or(Ok(()), |served| served.check_database(path))?;
    Ok(connection)
}

/// Opens a new file for a copy, without a journal: an interrupted copy is discarded.
pub(super) fn unlogged(path: &Path) -> Result<Connection, StoreError> {
    if path.exists() {
        return Err(StoreError::Unavailable(format!("{} exists already", path.display())));
    }
    create_private(path)?;
    let connection = existing(path)?;
    connection.pragma_update_and_check(None, "journal_mode", "OFF", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    Ok(connection)
}

/// Opens an existing file that no other process uses. Its path must not contain symbolic links.
pub(super) fn existing(path: &Path) -> Result<Connection, StoreError> {
    Ok(Connection::open_with_flags(path, flags(OpenFlags::SQLITE_OPEN_READ_WRITE, false))?)
}

/// Forbids functions with side effects in the schema: the writer of a hostile file decides what its schema computes.
pub(super) fn distrust_schema(connection: &Connection) -> Result<(), StoreError> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    Ok(())
}

/// Identity of a file: its device and its inode.
pub(super) type FileId = (u64, u64);

/// Returns the identity of the file at a path, to detect a replacement; `None` if the file is missing or the
/// system has no such identity.
#[cfg(unix)]
pub(super) fn file_id(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

#[cfg(not(unix))]
pub(super) const fn file_id(_: &Path) -> Option<FileId> {
    None
}

/// Returns the length of the file at a path.
pub(super) fn file_length(path: &Path) -> Option<u64> {
    std::fs::metadata(path).map(|file| file.len()).ok()
}

fn flags(access: OpenFlags, follows_links: bool) -> OpenFlags {
    let links = if follows_links { OpenFlags::empty() } else { OpenFlags::SQLITE_OPEN_NOFOLLOW };
    // One thread at a time uses a connection, so SQLite need not lock it.
    access | links | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

fn tune(connection: &Connection, settings: &SqliteSettings, cache_kib: u32) -> Result<(), StoreError> {
    // A negative cache size is in KiB, a positive one in pages.
    connection.pragma_update(None, "cache_size", -i64::from(cache_kib))?;
    let mmap = i64::try_from(settings.mmap_bytes).unwrap_or(i64::MAX);
    connection.pragma_update_and_check(None, "mmap_size", mmap, |_| Ok(()))?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // Plans must not depend on bound values. Otherwise SQLite prepares a cached statement again for each new
    // LIMIT, which costs more than most queries.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(settings.statement_cache);
    Ok(())
}

/// Creates the file for its owner only; SQLite's journal files inherit the mode.
fn create_private(path: &Path) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(StoreError::Unavailable(format!("the database file cannot be created: {error}"))),
    }
}

/// Switches to write-ahead logging. This needs exclusive access, and SQLite does not always wait for that
/// lock itself.
fn use_write_ahead_log(connection: &Connection, settings: &SqliteSettings) -> Result<(), StoreError> {
    let give_up = Instant::now() + settings.busy_timeout;
    loop {
        let switched = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
        match switched.map_err(StoreError::from) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(_) => {
                return Err(StoreError::Unavailable("the file system does not support a write-ahead log".to_owned()));
            }
            Err(error) if error.is_unavailable() && Instant::now() < give_up => thread::park_timeout(WAL_RETRY),
            Err(error) => return Err(error),
        }
    }
}
