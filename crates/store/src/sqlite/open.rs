//! Connections, set up for their work.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::SqliteSettings;
use crate::StoreError;

/// Pause between two tries to switch a new file to write-ahead logging.
const WAL_RETRY: Duration = Duration::from_millis(5);

/// The connection of the writer thread; creates the file when it is missing.
pub(super) fn writer(path: &Path, settings: &SqliteSettings) -> Result<Connection, StoreError> {
    create_private(path)?;
    let connection = Connection::open_with_flags(path, flags(OpenFlags::SQLITE_OPEN_READ_WRITE))?;
    connection.busy_timeout(settings.busy_timeout)?;
    use_write_ahead_log(&connection, settings)?;
    // A commit only writes; what is answered as being on disk is flushed by a thread of its own before it is.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", settings.checkpoint_pages)?;
    let wal_limit = i64::try_from(settings.wal_limit_bytes).unwrap_or(i64::MAX);
    connection.pragma_update_and_check(None, "journal_size_limit", wal_limit, |_| Ok(()))?;
    tune(&connection, settings, settings.writer_cache_kib)?;
    keep_what_is_there(&connection)?;
    Ok(connection)
}

/// What an earlier process committed may be nowhere but in the kernel's memory, when it was killed, or when a flush of
/// it failed. Folding the log into the file writes it once more, and flushes both. Another process that reads, or folds
/// at this moment, may leave something for the next time.
fn keep_what_is_there(connection: &Connection) -> Result<(), StoreError> {
    Ok(connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?)
}

/// One more connection of the readers.
pub(super) fn reader(path: &Path, settings: &SqliteSettings, cache_kib: u32) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(path, flags(OpenFlags::SQLITE_OPEN_READ_ONLY))?;
    connection.busy_timeout(settings.busy_timeout)?;
    tune(&connection, settings, cache_kib)?;
    Ok(connection)
}

/// Which file a path names: its device and its inode.
pub(super) type FileId = (u64, u64);

/// Tells the file of a path from another that takes its place; `None` without a file, or where that cannot be told.
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

fn flags(access: OpenFlags) -> OpenFlags {
    // Each connection is used by one thread at a time, so SQLite need not lock it.
    access | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

fn tune(connection: &Connection, settings: &SqliteSettings, cache_kib: u32) -> Result<(), StoreError> {
    // A negative cache size is in KiB, a positive one in pages.
    connection.pragma_update(None, "cache_size", -i64::from(cache_kib))?;
    let mmap = i64::try_from(settings.mmap_bytes).unwrap_or(i64::MAX);
    connection.pragma_update_and_check(None, "mmap_size", mmap, |_| Ok(()))?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // Plans must not depend on values that are bound: otherwise SQLite prepares a cached statement again each time
    // that it gets another LIMIT, which costs more than most queries.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(settings.statement_cache);
    Ok(())
}

/// Creates the file for its owner alone; the journal files that SQLite puts beside it inherit the mode.
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

/// The switch to write-ahead logging needs the file alone and does not always wait for the lock itself.
fn use_write_ahead_log(connection: &Connection, settings: &SqliteSettings) -> Result<(), StoreError> {
    let give_up = Instant::now() + settings.busy_timeout;
    loop {
        let switched = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
        match switched.map_err(StoreError::from) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(_) => return Err(StoreError::Unavailable("the file system allows no write-ahead log".to_owned())),
            Err(error) if error.is_unavailable() && Instant::now() < give_up => thread::park_timeout(WAL_RETRY),
            Err(error) => return Err(error),
        }
    }
}
