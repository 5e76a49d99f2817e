//! What a backup contains: the database, and the other files of the data directory.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mailapi_files::{EntryKind, FileError, OpenDirectory};
use mailapi_store::sqlite::CopyTarget;

use super::about;
use super::manifest::Accounts;
use crate::config::Database;
use crate::data_dir::{LOCK_FILE, RESTORING};
use crate::database_file::{SUFFIXES, with_suffix};
use crate::failure::{Failure, Outcome};
use crate::rights_thread::RightsThread;

/// The search index of external mailboxes, which is built again.
const SEARCH_INDEX: &str = "search-index";
/// Levels of directories that a backup enters. Ours are two; deeper ones would fill the stack.
const MOST_LEVELS: usize = 32;
/// Names of a copy of the database, and of the files that SQLite may put beside it.
pub(super) const DATABASE_COPY: [&str; 4] = ["database", "database-wal", "database-shm", "database-journal"];

/// The data that a backup saves. All of it is opened with the rights of its owner, also when root makes the backup.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) data_dir: Arc<OpenDirectory>,
    /// The path has no links.
    pub(crate) database: PathBuf,
    pub(crate) accounts: Accounts,
    /// Has the rights of the owner.
    pub(crate) thread: RightsThread,
}

impl Source {
    /// Runs an operation with the rights of the owner.
    fn with<T: Send + 'static>(&self, work: impl FnOnce(&Self) -> T + Send + 'static) -> Outcome<T> {
        let source = self.clone();
        self.thread.run(move || work(&source))
    }

    /// Copies the database into a file, which the owner need not be able to open.
    pub(super) fn copy_database(&self, target: CopyTarget) -> Outcome {
        let copied = self.with(move |source| target.fill_from(&source.database))?;
        copied.map_err(|error| {
            Failure::new(format!("the database {} cannot be copied: {error}", self.database.display()))
        })
    }

    /// Returns the permissions of the database.
    pub(super) fn database_mode(&self) -> Outcome<u32> {
        let found = self.with(|source| source.database.symlink_metadata())?;
        Ok(found.map_err(|error| about(&self.database, error))?.mode() & 0o777)
    }

    /// Returns the size of the database and of its log.
    pub(super) fn database_size(&self) -> Outcome<u64> {
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        self.with(move |source| size(&source.database) + size(&with_suffix(&source.database, "-wal")))
    }

    /// Opens one of the other files.
    pub(super) fn open(&self, path: &Path) -> Outcome<Result<File, FileError>> {
        let path = path.to_owned();
        self.with(move |source| {
            let directory = source.data_dir.below(path.parent().unwrap_or(Path::new("")))?;
            directory.open_file(path.file_name().unwrap_or_default())
        })
    }

    /// Returns the paths of all files but the database, relative to the data directory.
    ///
    /// Every file counts that is not known to be useless elsewhere: so the backup has files that are added later.
    pub(super) fn other_files(&self) -> Outcome<Vec<PathBuf>> {
        self.with(|source| {
            let mut files = Vec::new();
            source.add_files(&source.data_dir, Path::new(""), &mut files)?;
            files.sort();
            Ok(files)
        })?
    }

    fn add_files(&self, directory: &OpenDirectory, below: &Path, files: &mut Vec<PathBuf>) -> Outcome {
        for entry in directory.entries()? {
            let path = below.join(&entry.name);
            if is_left_out(self.data_dir.path(), &self.database, &path) {
                continue;
            }
            if path.to_str().is_none() || path.components().count() > MOST_LEVELS {
                let path = self.data_dir.path().join(&path);
                tracing::warn!(path = %path.display(), "not in the backup: its name is not UTF-8, or has too many levels");
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
}

/// Returns whether a backup leaves out this path in the data directory: the database, which it saves in another way, and what
/// is useless elsewhere.
pub(super) fn is_left_out(data_dir: &Path, database: &Path, path: &Path) -> bool {
    let databases = [database.to_owned(), Database::usual_file(data_dir)];
    let absolute = data_dir.join(path);
    let is_database =
        databases.iter().any(|database| SUFFIXES.iter().any(|suffix| with_suffix(database, suffix) == absolute));
    is_database || [LOCK_FILE, RESTORING, SEARCH_INDEX, "lost+found"].iter().any(|name| path == Path::new(name))
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

/// Returns the text of a path for a manifest.
pub(super) fn text_of(path: &Path) -> Outcome<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::new(format!("{}: the name is not UTF-8", path.display())))
}
