//! The place of an open database file. SQLite keeps writing to a file that was renamed or unlinked, but a restart
//! would open another one, so no change may be promised then.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::home_record::HomeRecord;
use super::open::{FileId, file_id};
use crate::StoreError;

/// The database, its write-ahead log and its index of the log: a commit is lost without any of the first two, and
/// another process would corrupt the file without the third.
pub(super) const SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];

/// Checks that the files of an open database are still in their place.
#[derive(Debug)]
pub(super) struct FileHome {
    files: [HomeFile; SUFFIXES.len()],
    is_moved: bool,
}

#[derive(Debug)]
struct HomeFile {
    path: PathBuf,
    /// `None` until SQLite has created the file, and on systems without identities of files.
    id: Option<FileId>,
}

impl FileHome {
    /// Notes where the files of a database are, which a connection has opened.
    ///
    /// # Errors
    /// When the symbolic links to it cannot be resolved.
    pub(super) fn of(database: &Path) -> Result<Self, StoreError> {
        let failed = |error| StoreError::Unavailable(format!("the database file cannot be found: {error}"));
        // SQLite puts the other files beside the file that symbolic links lead to.
        let database = database.canonicalize().map_err(failed)?;
        let file = |suffix| {
            let path = with_suffix(&database, suffix);
            HomeFile { id: file_id(&path), path }
        };
        Ok(Self { files: SUFFIXES.map(file), is_moved: false })
    }

    /// Returns the identities of the files.
    pub(super) fn record(&self) -> HomeRecord {
        HomeRecord(self.files.each_ref().map(|file| file.id))
    }

    /// Returns the path of the database, and the identity of the file that is open.
    pub(super) fn database(&self) -> (&Path, Option<FileId>) {
        (&self.files[0].path, self.files[0].id)
    }

    /// Returns the path of the log if the open one is there.
    pub(super) fn own_log(&self) -> Option<&Path> {
        let log = &self.files[1];
        (log.id.is_some() && file_id(&log.path) == log.id).then_some(log.path.as_path())
    }

    /// Checks the files; logs when they disappear and when they are back. It costs a microsecond for each file.
    ///
    /// # Errors
    /// [`StoreError::Moved`] if one was renamed, removed or replaced.
    pub(super) fn check(&mut self) -> Result<(), StoreError> {
        let moved = self.files.iter_mut().find_map(HomeFile::moved);
        let was_moved = std::mem::replace(&mut self.is_moved, moved.is_some());
        match &moved {
            Some(error) if !was_moved => tracing::error!(%error, "changes are refused"),
            None if was_moved => tracing::info!("the database file is in its place again; changes are accepted"),
            _ => {}
        }
        moved.map_or(Ok(()), Err)
    }
}

impl HomeFile {
    fn moved(&mut self) -> Option<StoreError> {
        let now = file_id(&self.path);
        if self.id.is_none() {
            self.id = now;
        }
        (now != self.id).then(|| moved(&self.path))
    }
}

/// Returns the path of a database with a suffix.
pub(super) fn with_suffix(database: &Path, suffix: &str) -> PathBuf {
    let mut path = OsString::from(database);
    path.push(suffix);
    path.into()
}

/// The error for a database whose file is no longer at its path.
pub(super) fn moved(path: &Path) -> StoreError {
    StoreError::Moved(path.display().to_string())
}
