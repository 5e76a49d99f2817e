//! The identities of the files that a server has open. It records them, so that no other process opens other ones.
//!
//! SQLite finds the log by the name of the database. A process that opens another file under that name would read the
//! server's log as a part of it, and write the server's changes into it.

use std::fmt;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::home::{SUFFIXES, with_suffix};
use super::open::{FileId, file_id};
use crate::StoreError;

/// Written in place of the identity of a file that was missing.
const MISSING: &str = "-";

/// Identities of a database file, its write-ahead log and the index of the log, as one process has opened them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HomeRecord(pub(super) [Option<FileId>; SUFFIXES.len()]);

/// A recorded text that has another form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the record of the open database has an unknown form")]
pub struct UnknownRecord;

impl HomeRecord {
    /// Checks that the process that made the record has the files at this path open, now that it runs.
    ///
    /// # Errors
    /// [`StoreError::Moved`] with the first file that was renamed, removed or replaced.
    pub fn check(&self, database: &Path) -> Result<(), StoreError> {
        let database = resolved(database);
        let mut files = SUFFIXES.iter().zip(self.0);
        files.try_for_each(|(suffix, recorded)| same(&with_suffix(&database, suffix), recorded))
    }

    /// Checks that the log at this path belongs to the database at this path, after the process that made the record has
    /// ended. A log that it left belongs to its database alone.
    ///
    /// # Errors
    /// [`StoreError::Moved`] with the database, if it is another file and the log is the recorded one.
    pub fn check_left_log(&self, database: &Path) -> Result<(), StoreError> {
        let [file, log, _] = self.0;
        let place = with_suffix(&resolved(database), "-wal");
        let is_left = log.is_some() && file_id(&place) == log && place.metadata().is_ok_and(|log| log.len() > 0);
        if is_left { same(database, file) } else { Ok(()) }
    }

    /// Returns whether an open file is the database.
    #[must_use]
    pub fn is_database(&self, file: &Metadata) -> bool {
        use std::os::unix::fs::MetadataExt;
        self.0[0] == Some((file.dev(), file.ino()))
    }

    /// Checks the database file alone.
    pub(super) fn check_database(&self, database: &Path) -> Result<(), StoreError> {
        same(database, self.0[0])
    }
}

/// Returns the path that symbolic links lead to: SQLite puts the other files there.
fn resolved(database: &Path) -> PathBuf {
    database.canonicalize().unwrap_or_else(|_| database.to_owned())
}

/// Compares a file with the recorded one. Systems without identities of files record none.
fn same(path: &Path, recorded: Option<FileId>) -> Result<(), StoreError> {
    match recorded {
        Some(_) if file_id(path) != recorded => Err(super::home::moved(path)),
        _ => Ok(()),
    }
}

impl fmt::Display for HomeRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.0.map(|id| id.map_or(MISSING.to_owned(), |(device, inode)| format!("{device}:{inode}")));
        f.write_str(&words.join(" "))
    }
}

impl FromStr for HomeRecord {
    type Err = UnknownRecord;

    fn from_str(text: &str) -> Result<Self, UnknownRecord> {
        let number = |digits: &str| digits.parse::<u64>().map_err(|_| UnknownRecord);
        let id = |word: &str| match word.split_once(':') {
            Some((device, inode)) => Ok(Some((number(device)?, number(inode)?))),
            None if word == MISSING => Ok(None),
            None => Err(UnknownRecord),
        };
        let ids = text.split(' ').map(id).collect::<Result<Vec<_>, _>>()?;
        Ok(Self(ids.try_into().map_err(|_| UnknownRecord)?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_record_is_read_as_it_was_written(ids in any::<[Option<FileId>; SUFFIXES.len()]>()) {
            let record = HomeRecord(ids);
            prop_assert_eq!(record.to_string().parse(), Ok(record));
        }

        #[test]
        fn no_text_panics(text in any::<String>(), words in "[0-9: -]{0,40}") {
            for text in [text, words] {
                if let Ok(record) = text.parse::<HomeRecord>() {
                    prop_assert_eq!(record.to_string().parse(), Ok(record));
                }
            }
        }
    }

    #[test]
    fn a_log_that_was_left_belongs_to_its_database() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("test.db");
        let write = |suffix: &str, text: &str| std::fs::write(with_suffix(&database, suffix), text).unwrap();
        write("", "one");
        write("-wal", "changes");
        let record = HomeRecord(SUFFIXES.map(|suffix| file_id(&with_suffix(&database, suffix))));
        assert_eq!((record.check(&database), record.check_left_log(&database)), (Ok(()), Ok(())));
        write("-new", "two");
        std::fs::rename(with_suffix(&database, "-new"), &database).unwrap();
        let moved = Err(super::super::home::moved(&database));
        assert_eq!((record.check(&database), record.check_left_log(&database)), (moved.clone(), moved.clone()));
        // An empty log changes nothing.
        write("-wal", "");
        assert_eq!((record.check(&database), record.check_left_log(&database)), (moved, Ok(())));
    }
}
