//! The catalogue of indexed mailboxes: when each was last searched, and its size.

use std::path::{Path, PathBuf};

use mailapi_model::{EmailAddress, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::error::IndexError;
use super::settings::SearchSettings;

const TABLES: &str = include_str!("catalogue.sql");
const FILE: &str = "catalogue.db";
/// The version of the tables.
const FORM: i64 = 1;

/// The list of all indexes of a directory.
pub(super) struct Catalogue {
    connection: Connection,
}

/// An entry of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) id: i64,
    pub(super) mailbox: String,
    pub(super) last_searched: Timestamp,
    pub(super) bytes: u64,
    /// The mailbox exceeds the limit by itself.
    pub(super) is_too_large: bool,
}

impl Catalogue {
    pub(super) fn file(directory: &Path) -> PathBuf {
        directory.join(FILE)
    }

    pub(super) fn open(directory: &Path, settings: &SearchSettings) -> Result<Self, IndexError> {
        let mut connection = super::mailbox_index::connect(&Self::file(directory), settings)?;
        let form: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if form == 0 {
            let transaction = connection.transaction()?;
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "user_version", FORM)?;
            transaction.commit()?;
        } else if form != FORM {
            return Err(IndexError::Damaged("the catalogue has another format".to_owned()));
        }
        let catalogue = Self { connection };
        // Read everything once, so that damage shows now.
        catalogue.all()?;
        Ok(catalogue)
    }

    /// Returns all entries, the least recently searched first.
    pub(super) fn all(&self) -> Result<Vec<Listed>, IndexError> {
        let sql = "SELECT id, mailbox, last_searched, bytes, too_large FROM indexes ORDER BY last_searched, id";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map([], |row| {
            Ok(Listed {
                id: row.get(0)?,
                mailbox: row.get(1)?,
                last_searched: Timestamp::from_millis(row.get(2)?),
                bytes: row.get(3)?,
                is_too_large: row.get(4)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    pub(super) fn find(&self, mailbox: &EmailAddress) -> Result<Option<Listed>, IndexError> {
        let sql = "SELECT id, last_searched, bytes, too_large FROM indexes WHERE mailbox = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let found = statement.query_row(params![mailbox.as_str()], |row| {
            let mailbox = mailbox.as_str().to_owned();
            let last_searched = Timestamp::from_millis(row.get(1)?);
            Ok(Listed { id: row.get(0)?, mailbox, last_searched, bytes: row.get(2)?, is_too_large: row.get(3)? })
        });
        Ok(found.optional()?)
    }

    /// Adds an entry for a mailbox, and returns its id.
    pub(super) fn add(&self, mailbox: &EmailAddress, now: Timestamp) -> Result<i64, IndexError> {
        let sql = "INSERT INTO indexes (mailbox, last_searched) VALUES (?1, ?2)";
        self.connection.execute(sql, params![mailbox.as_str(), now.as_millis()])?;
        Ok(self.connection.last_insert_rowid())
    }

    /// Stores when the mailbox was last searched, and its size.
    pub(super) fn note(&self, id: i64, last_searched: Timestamp, bytes: u64) -> Result<(), IndexError> {
        let sql = "UPDATE indexes SET last_searched = ?2, bytes = ?3
            WHERE id = ?1 AND (last_searched <> ?2 OR bytes <> ?3)";
        self.connection.prepare_cached(sql)?.execute(params![id, last_searched.as_millis(), bytes])?;
        Ok(())
    }

    /// Marks an entry whose mailbox is too large. Its index has no file until the entry is removed.
    pub(super) fn mark_too_large(&self, id: i64) -> Result<(), IndexError> {
        self.connection.execute("UPDATE indexes SET too_large = 1, bytes = 0 WHERE id = ?1", params![id])?;
        Ok(())
    }

    pub(super) fn remove(&self, id: i64) -> Result<(), IndexError> {
        self.connection.execute("DELETE FROM indexes WHERE id = ?1", params![id])?;
        Ok(())
    }
}
