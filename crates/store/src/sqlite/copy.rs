//! Copies of a database file that is in use, and the check of a file.

use std::path::Path;

use rusqlite::backup::{Backup, StepResult};

use super::{SqliteSettings, open};
use crate::StoreError;

/// Pages copied at once: 1 MiB, so that neither side is busy for long.
const STEP_PAGES: std::ffi::c_int = 256;

/// Copies the database `source`, as it is when the copy begins, to the file `target`, which must not exist. Neither path may
/// contain symbolic links.
///
/// Blocks the calling thread. Writers in this or another process never wait for it. Meanwhile the write-ahead log of
/// the source keeps what is committed, and grows. The copy is not flushed to disk.
///
/// # Errors
/// When the source cannot be read or the target cannot be written; an incomplete target may be left.
pub fn copy_database(source: &Path, target: &Path) -> Result<(), StoreError> {
    let settings = SqliteSettings { follows_links: false, ..SqliteSettings::default() };
    let source = open::reader(source, &settings, settings.reader_cache_kib)?;
    let mut target = open::unlogged(target)?;
    // Without an open transaction, each commit of another process would make the copy start again.
    source.execute_batch("BEGIN")?;
    source.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let copy = Backup::new(&source, &mut target)?;
    loop {
        match copy.step(STEP_PAGES)? {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            _ => return Err(StoreError::Unavailable("the database is locked".to_owned())),
        }
    }
}

/// Checks the structure of a database file that no other process uses: every page, index and constraint. Its path must not
/// contain symbolic links.
///
/// Blocks the calling thread; it reads the whole file.
///
/// # Errors
/// When the file cannot be read, or with the first fault that SQLite finds.
pub fn check_database(file: &Path) -> Result<(), StoreError> {
    let connection = open::existing(file)?;
    let finding: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if finding == "ok" { Ok(()) } else { Err(StoreError::unexpected(format!("the file is damaged: {finding}"))) }
}
