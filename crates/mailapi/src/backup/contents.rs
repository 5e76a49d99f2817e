//! What a backup contains: the database, and the other files of the data directory.

use std::io;
use std::path::{Path, PathBuf};

use super::about;
use super::manifest::Accounts;
use crate::config::Database;
use crate::data_dir::{LOCK_FILE, RESTORING};
use crate::failure::{Failure, Outcome};

/// The search index of external mailboxes, which is built again.
const SEARCH_INDEX: &str = "search-index";

/// The data that a backup saves.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) data_dir: PathBuf,
    pub(crate) database: PathBuf,
    pub(crate) accounts: Accounts,
}

impl Source {
    /// Returns the paths of all files but the database, relative to the data directory.
    ///
    /// Every file counts that is not known to be useless elsewhere: so the backup has files that are added later.
    pub(super) fn other_files(&self) -> Outcome<Vec<PathBuf>> {
        let mut files = Vec::new();
        self.add_files(Path::new(""), &mut files)?;
        files.sort();
        Ok(files)
    }

    fn add_files(&self, below: &Path, files: &mut Vec<PathBuf>) -> Outcome {
        let directory = self.data_dir.join(below);
        let failed = |error| about(&directory, error);
        for entry in std::fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = below.join(entry.file_name());
            if self.is_excluded(&path) {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.add_files(&path, files)?,
                Ok(kind) if kind.is_file() => files.push(path),
                Ok(_) => tracing::warn!(path = %entry.path().display(), "not in the backup: it is a link or a device"),
                // It was there for a moment.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    fn is_excluded(&self, path: &Path) -> bool {
        let databases = [self.database.clone(), Database::usual_file(&self.data_dir)];
        let absolute = self.data_dir.join(path);
        let is_database = databases.iter().any(|database| {
            let beside = |suffix| with_suffix(database, suffix);
            [database.clone(), beside("-wal"), beside("-shm"), beside("-journal")].contains(&absolute)
        });
        is_database || [LOCK_FILE, RESTORING, SEARCH_INDEX, "lost+found"].iter().any(|name| path == Path::new(name))
    }
}

/// Returns the path of a file beside `path`, whose name is longer.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

/// Returns the text of a path for a manifest.
pub(super) fn text_of(path: &Path) -> Outcome<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::new(format!("{}: the name is not UTF-8", path.display())))
}
