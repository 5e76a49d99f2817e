//! What a backup contains: the database, and the other files of the data directory.

use std::path::{Path, PathBuf};

use mailapi_files::{EntryKind, FileError, OpenDirectory};

use super::manifest::Accounts;
use crate::config::Database;
use crate::data_dir::{LOCK_FILE, RESTORING};
use crate::failure::{Failure, Outcome};

/// The search index of external mailboxes, which is built again.
const SEARCH_INDEX: &str = "search-index";
/// Names of a copy of the database, and of the files that SQLite may put beside it.
pub(super) const DATABASE_COPY: [&str; 4] = ["database", "database-wal", "database-shm", "database-journal"];

/// The data that a backup saves.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) data_dir: OpenDirectory,
    /// The path has no links.
    pub(crate) database: PathBuf,
    pub(crate) accounts: Accounts,
}

impl Source {
    /// Returns the paths of all files but the database, relative to the data directory.
    ///
    /// Every file counts that is not known to be useless elsewhere: so the backup has files that are added later.
    pub(super) fn other_files(&self) -> Outcome<Vec<PathBuf>> {
        let mut files = Vec::new();
        self.add_files(&self.data_dir, Path::new(""), &mut files)?;
        files.sort();
        Ok(files)
    }

    fn add_files(&self, directory: &OpenDirectory, below: &Path, files: &mut Vec<PathBuf>) -> Outcome {
        for entry in directory.entries()? {
            let path = below.join(&entry.name);
            if self.is_excluded(&path) {
                continue;
            }
            match entry.kind {
                EntryKind::File => files.push(path),
                EntryKind::Directory => match directory.directory(&entry.name) {
                    Ok(directory) => self.add_files(&directory, &path, files)?,
                    Err(error) => left_out(error)?,
                },
                _ => {
                    let path = directory.path().join(&entry.name);
                    tracing::warn!(path = %path.display(), "not in the backup: it is a link or a device");
                }
            }
        }
        Ok(())
    }

    fn is_excluded(&self, path: &Path) -> bool {
        let databases = [self.database.clone(), Database::usual_file(self.data_dir.path())];
        let absolute = self.data_dir.path().join(path);
        let is_database = databases.iter().any(|database| {
            let beside = |suffix| with_suffix(database, suffix);
            [database.clone(), beside("-wal"), beside("-shm"), beside("-journal")].contains(&absolute)
        });
        is_database || [LOCK_FILE, RESTORING, SEARCH_INDEX, "lost+found"].iter().any(|name| path == Path::new(name))
    }
}

/// Warns of an entry that a backup must not follow or read. An entry that is gone was there for a moment only.
pub(super) fn left_out(error: FileError) -> Outcome {
    match error.refusal() {
        Some(_) => tracing::warn!(%error, "not in the backup"),
        None if error.is_missing() => {}
        None => return Err(error.into()),
    }
    Ok(())
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
