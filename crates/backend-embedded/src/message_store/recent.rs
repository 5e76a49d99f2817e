//! `\Recent` (RFC 3501 section 2.3.2): each message is recent once, in the first session that selects its
//! folder read-write.

use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, params};

use super::id::FolderId;
use super::{Folder, MessageStore, MessageStoreError};

impl Folder {
    /// Returns the UIDs that are `\Recent` for the next session.
    #[must_use]
    pub const fn recent(&self) -> Range<u32> {
        self.first_recent..self.uid_next
    }
}

impl MessageStore {
    /// Claims the `\Recent` UIDs of a folder, so that no other session gets them.
    ///
    /// # Errors
    /// If the database fails. A removed folder has no UIDs.
    pub(crate) async fn take_recent(&self, folder: FolderId) -> Result<Range<u32>, MessageStoreError> {
        self.write(move |connection, _| take(connection, folder)).await
    }

    /// Returns the number of `\Recent` messages of each folder for the next session, in the order of the
    /// folders.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn count_recent(&self, folders: &[Folder]) -> Result<Vec<u32>, MessageStoreError> {
        if folders.iter().all(|folder| folder.recent().is_empty()) {
            return Ok(vec![0; folders.len()]);
        }
        let ranges: Vec<_> = folders.iter().map(|folder| (folder.id, folder.recent())).collect();
        self.scan(move |connection| ranges.into_iter().map(|(folder, uids)| count(connection, folder, uids)).collect())
            .await
    }
}

fn take(connection: &Connection, folder: FolderId) -> Result<Range<u32>, MessageStoreError> {
    let sql = "SELECT first_recent, uid_next FROM drop_folders WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(params![folder], |row| Ok(row.get(0)?..row.get(1)?)).optional()?;
    let taken = found.unwrap_or_default();
    if !taken.is_empty() {
        let sql = "UPDATE drop_folders SET first_recent = ?2 WHERE id = ?1";
        connection.prepare_cached(sql)?.execute(params![folder, taken.end])?;
    }
    Ok(taken)
}

fn count(connection: &Connection, folder: FolderId, uids: Range<u32>) -> Result<u32, MessageStoreError> {
    if uids.is_empty() {
        return Ok(0);
    }
    let sql = "SELECT COUNT(*) FROM drop_entries WHERE folder_id = ?1 AND uid >= ?2 AND uid < ?3";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row(params![folder, uids.start, uids.end], |row| row.get(0))?)
}
