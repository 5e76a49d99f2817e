//! Rows of imported messages, and the numbers of a folder that are those of its source.

use mailapi_model::Timestamp;
use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, params};

use super::id::FolderId;
use super::{Folder, MessageStoreError, folder};

/// Returns whether a message of this key was imported into the folder.
pub(super) fn is_known(connection: &Connection, folder: FolderId, key: &[u8]) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM drop_imported WHERE folder_id = ?1 AND source_key = ?2";
    Ok(connection.prepare_cached(sql)?.exists(params![folder, key])?)
}

/// Remembers a key.
pub(super) fn add(connection: &Connection, folder: FolderId, key: &[u8]) -> Result<(), StoreError> {
    let sql = "INSERT INTO drop_imported (folder_id, source_key) VALUES (?1, ?2)";
    connection.prepare_cached(sql)?.execute(params![folder, key])?;
    Ok(())
}

/// Forgets at most `most` keys of a removed folder. Returns their number.
pub(super) fn remove_first(connection: &Connection, folder: FolderId, most: usize) -> Result<usize, StoreError> {
    let sql = "DELETE FROM drop_imported WHERE folder_id = ?1 AND source_key IN
        (SELECT source_key FROM drop_imported WHERE folder_id = ?1 LIMIT ?2)";
    Ok(connection.prepare_cached(sql)?.execute(params![folder, most])?)
}

/// Returns `uid_next` after the last import, while the folder has the numbers of a source.
pub(super) fn source_uid_next(connection: &Connection, folder: FolderId) -> Result<Option<u32>, StoreError> {
    let sql = "SELECT source_uid_next FROM drop_folders WHERE id = ?1";
    Ok(connection.prepare_cached(sql)?.query_row(params![folder], |row| row.get(0)).optional()?.flatten())
}

/// Gives an empty folder the UIDVALIDITY of a source. Later values remain above it.
pub(super) fn take_numbers(connection: &Connection, folder: FolderId, uid_validity: u32) -> Result<(), StoreError> {
    let sql = "UPDATE drop_folders SET uid_validity = ?2, source_uid_next = uid_next WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![folder, uid_validity])?;
    let sql = "UPDATE drop_uid_validity SET last = MAX(last, ?1)";
    connection.prepare_cached(sql)?.execute(params![uid_validity])?;
    Ok(())
}

/// Sets the next UID while the folder has the numbers of its source.
pub(super) fn set_uid_next(connection: &Connection, folder: FolderId, uid_next: u32) -> Result<(), StoreError> {
    let sql = "UPDATE drop_folders SET uid_next = ?2, source_uid_next = ?2 WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![folder, uid_next])?;
    Ok(())
}

/// Gives up the numbers of the source: with a new UIDVALIDITY, clients read the folder again, and no UID names two
/// messages.
pub(super) fn leave_numbers(
    connection: &Connection,
    folder: &Folder,
    now: Timestamp,
) -> Result<u32, MessageStoreError> {
    let uid_validity = folder::next_uid_validity(connection, now)?;
    let sql = "UPDATE drop_folders SET uid_validity = ?2, source_uid_next = NULL WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![folder.id, uid_validity])?;
    Ok(uid_validity)
}
