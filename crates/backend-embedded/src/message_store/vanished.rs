//! Removed UIDs, for clients that come back (RFC 7162 section 3.2.5).

use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, params};

use super::id::FolderId;
use super::{Folder, MessageStore, MessageStoreError, entry, folder};

/// Rows of a folder that are kept: enough for months of a busy mailbox, and less than a megabyte. A client that was
/// away for longer gets the gaps between the present UIDs.
const KEPT_ROWS: u64 = 10_000;

/// Rows are counted only at each such modification sequence, since counting reads all of them.
const COUNTED_EVERY: u64 = 64;

impl MessageStore {
    /// Returns the UIDs removed after a modification sequence, as ranges in any order, ends included. If the store has
    /// forgotten some, these are all UIDs that no message has.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchFolder`].
    pub async fn vanished_since(&self, folder: FolderId, modseq: u64) -> Result<Vec<(u32, u32)>, MessageStoreError> {
        self.scan(move |connection| {
            let folder = folder::by_id(connection, folder)?;
            let is_known = modseq >= forgotten_through(connection, folder.id)?;
            Ok(if is_known { since(connection, folder.id, modseq)? } else { gaps(connection, &folder)? })
        })
        .await
    }
}

/// Stores the UIDs that a transaction removed, ascending.
pub(super) fn add(connection: &Connection, folder: FolderId, modseq: u64, uids: &[u32]) -> Result<(), StoreError> {
    let sql = "INSERT INTO drop_vanished (folder_id, modseq, first_uid, last_uid) VALUES (?1, ?2, ?3, ?4)";
    let mut statement = connection.prepare_cached(sql)?;
    for run in uids.chunk_by(|before, after| before.checked_add(1) == Some(*after)) {
        if let (Some(first), Some(last)) = (run.first(), run.last()) {
            statement.execute(params![folder, modseq, first, last])?;
        }
    }
    if modseq.is_multiple_of(COUNTED_EVERY) { forget_oldest(connection, folder) } else { Ok(()) }
}

fn forget_oldest(connection: &Connection, folder: FolderId) -> Result<(), StoreError> {
    let sql = "SELECT modseq FROM drop_vanished WHERE folder_id = ?1 ORDER BY modseq DESC LIMIT 1 OFFSET ?2";
    let newest = connection.prepare_cached(sql)?.query_row(params![folder, KEPT_ROWS], |row| row.get(0)).optional()?;
    let Some(newest): Option<u64> = newest else { return Ok(()) };
    let sql = "DELETE FROM drop_vanished WHERE folder_id = ?1 AND modseq <= ?2";
    connection.prepare_cached(sql)?.execute(params![folder, newest])?;
    let sql = "UPDATE drop_folders SET vanished_after = ?2 WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![folder, newest])?;
    Ok(())
}

/// Removes all rows of a folder.
pub(super) fn remove_all(connection: &Connection, folder: FolderId) -> Result<(), StoreError> {
    connection.prepare_cached("DELETE FROM drop_vanished WHERE folder_id = ?1")?.execute(params![folder])?;
    Ok(())
}

fn forgotten_through(connection: &Connection, folder: FolderId) -> Result<u64, StoreError> {
    let sql = "SELECT vanished_after FROM drop_folders WHERE id = ?1";
    Ok(connection.prepare_cached(sql)?.query_row(params![folder], |row| row.get(0))?)
}

fn since(connection: &Connection, folder: FolderId, modseq: u64) -> Result<Vec<(u32, u32)>, StoreError> {
    let sql = "SELECT first_uid, last_uid FROM drop_vanished WHERE folder_id = ?1 AND modseq > ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![folder, modseq], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the ranges between the present UIDs, up to the next UID.
fn gaps(connection: &Connection, folder: &Folder) -> Result<Vec<(u32, u32)>, StoreError> {
    let mut gaps = Vec::new();
    let mut next = 1;
    for uid in entry::uids(connection, folder.id)?.into_iter().chain([folder.uid_next]) {
        if uid > next {
            gaps.push((next, uid - 1));
        }
        next = uid.saturating_add(1);
    }
    Ok(gaps)
}
