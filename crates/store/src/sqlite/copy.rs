//! Copies of a database file that is in use, and the check of a file.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::home::FileHome;
use super::{SqliteSettings, open};
use crate::StoreError;

/// Pages copied at once: 1 MiB, so that neither side is busy for long.
const STEP_PAGES: std::ffi::c_int = 256;

/// A new database file that receives a copy.
///
/// SQLite opens it once, when it is created. So a thread without the right to open the file can copy into it.
#[derive(Debug)]
pub struct CopyTarget(Connection);

impl CopyTarget {
    /// Creates the file, which must not exist. The path may not contain symbolic links.
    ///
    /// # Errors
    /// When the file exists or cannot be created.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        Ok(Self(open::unlogged(path)?))
    }

    /// Copies a database into the file, as [`copy_database`] does.
    ///
    /// # Errors
    /// When the source cannot be read or the file cannot be written; the file is then incomplete.
    pub fn fill_from(mut self, source: &Path) -> Result<(), StoreError> {
        let settings = SqliteSettings { follows_links: false, ..SqliteSettings::default() };
        let mut home = FileHome::of(source)?;
        let source = open::reader(source, &settings, settings.reader_cache_kib)?;
        // Without an open transaction, each commit of another process would make the copy start again.
        source.execute_batch("BEGIN")?;
        source.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |_| Ok(()))?;
        let copy = Backup::new(&source, &mut self.0)?;
        loop {
            match copy.step(STEP_PAGES)? {
                // Otherwise the copy may have pages of two databases.
                StepResult::Done => return home.check(),
                StepResult::More => {}
                _ => return Err(StoreError::Unavailable("the database is locked".to_owned())),
            }
        }
    }
}

/// Copies the database `source`, as it is when the copy begins, to the file `target`, which must not exist. Neither path may
/// contain symbolic links.
///
/// Blocks the calling thread. Writers in this or another process never wait for it. Meanwhile the write-ahead log of
/// the source keeps what is committed, and grows. The copy is not flushed to disk.
///
/// # Errors
/// When the source cannot be read or the target cannot be written; an incomplete target may be left.
pub fn copy_database(source: &Path, target: &Path) -> Result<(), StoreError> {
    CopyTarget::create(target)?.fill_from(source)
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
    open::distrust_schema(&connection)?;
    let finding: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if finding == "ok" { Ok(()) } else { Err(StoreError::unexpected(format!("the file is damaged: {finding}"))) }
}
