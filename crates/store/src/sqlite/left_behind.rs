//! The end of the work on a database, also of one whose files are no longer in their place.
//!
//! SQLite keeps the former files open. So the changes that were answered can still be completed, but never in the file that
//! has the name now.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup;
use rusqlite::config::DbConfig;

use super::home::{FileHome, with_suffix};
use super::open::{self, FileId};
use crate::StoreError;

/// The descriptors of this process.
const DESCRIPTORS: &str = "/proc/self/fd";
/// Pages copied at once: 1 MiB.
const STEP_PAGES: std::ffi::c_int = 256;
/// Copies of former databases that can lie beside each other.
const MOST_COPIES: u32 = 100;

/// Writes the log into the database that this connection has open, before the connection is closed.
pub(super) fn end(connection: &Connection, home: &mut FileHome) {
    if home.check().is_ok() {
        // A reader in another process may prevent it; the next process to open the file does it then.
        let _ = empty_log(connection);
        return;
    }
    // SQLite removes a log by its name, which another database may have now.
    let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    match complete(connection, home) {
        Ok(place) => {
            tracing::warn!(database = %place.display(), "the former database has every change that was answered")
        }
        Err(error) => {
            tracing::error!(%error, "the former database could not be completed; its last changes are in its log");
            set_log_aside(home);
        }
    }
}

/// Completes the database that was open, and returns its path. A database that was removed gets a name again.
fn complete(connection: &Connection, home: &FileHome) -> Result<PathBuf, StoreError> {
    let (path, id) = home.database();
    let place = match former_place(path, id).map_err(|error| StoreError::Unavailable(error.to_string()))? {
        Some(place) => place,
        None => copy_beside(connection, path)?,
    };
    empty_log(connection)?;
    Ok(place)
}

/// Returns where the open database is now; `None` if it has no name.
///
/// Another descriptor of the file is never opened: its end would release SQLite's locks.
fn former_place(path: &Path, id: Option<FileId>) -> io::Result<Option<PathBuf>> {
    if open::file_id(path) == id {
        return Ok(Some(path.to_owned()));
    }
    for entry in std::fs::read_dir(DESCRIPTORS)? {
        let descriptor = entry?.path();
        // The link leads to the open file itself, whatever name it has. It may have been closed since.
        let Ok(found) = descriptor.metadata() else { continue };
        if Some((found.dev(), found.ino())) == id {
            return if found.nlink() == 0 { Ok(None) } else { descriptor.read_link().map(Some) };
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Copies the open database, with its log, beside its former place.
fn copy_beside(connection: &Connection, path: &Path) -> Result<PathBuf, StoreError> {
    let mut names = (1..=MOST_COPIES).map(|number| match number {
        1 => with_suffix(path, ".former"),
        _ => with_suffix(path, &format!(".former-{number}")),
    });
    let place = names.find(|place| place.symlink_metadata().is_err());
    let place = place.ok_or_else(|| StoreError::Unavailable("there are too many copies".to_owned()))?;
    let mut target = open::unlogged(&place)?;
    Backup::new(connection, &mut target)?.run_to_completion(STEP_PAGES, Duration::ZERO, None)?;
    drop(target);
    let flushed = std::fs::File::open(&place).and_then(|file| file.sync_all());
    flushed.map_err(|error| StoreError::Unavailable(error.to_string()))?;
    Ok(place)
}

/// Writes the whole log into the database, and empties it.
fn empty_log(connection: &Connection) -> Result<(), StoreError> {
    let is_busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if is_busy { Err(StoreError::Unavailable("another process reads it".to_owned())) } else { Ok(()) }
}

/// Takes the log away from the database that has the name now. Otherwise the next process would write it into that one.
fn set_log_aside(home: &FileHome) {
    let (path, id) = home.database();
    if open::file_id(path) == id {
        return;
    }
    let Some(log) = home.own_log() else { return };
    let aside = with_suffix(log, ".former");
    match std::fs::rename(log, &aside) {
        Ok(()) => tracing::error!(log = %aside.display(), "the log of the former database was renamed"),
        Err(error) => tracing::error!(%error, log = %log.display(), "remove this log before the next start"),
    }
}
