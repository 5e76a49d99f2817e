//! Removes messages marked as deleted.

use futures_util::{StreamExt, TryStreamExt, stream};
use rusqlite::{Connection, params};

use super::flag_bits::DELETED;
use super::id::FolderId;
use super::{Folder, MessageStore, MessageStoreError, STEP, STEPS_AT_ONCE, Touched, folder};

impl MessageStore {
    /// Removes all `\Deleted` messages, or only those in `uids` (UID EXPUNGE of RFC 4315). Returns the
    /// removed UIDs, ascending. A large command runs in steps, with other writers between them.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchFolder`].
    pub async fn expunge(&self, folder: FolderId, uids: Option<Vec<u32>>) -> Result<Vec<u32>, MessageStoreError> {
        // A read selects the messages, so that the writer is needed only to remove them.
        let mut wanted = self
            .scan(move |connection| {
                folder::by_id(connection, folder)?;
                deleted(connection, folder)
            })
            .await?;
        if let Some(mut uids) = uids {
            uids.sort_unstable();
            wanted.retain(|uid| uids.binary_search(uid).is_ok());
        }
        let steps = wanted.chunks(STEP).map(|uids| {
            let uids = uids.to_vec();
            self.write_freeing(move |connection: &Connection, touched: &mut Touched| {
                let mailbox = folder::by_id(connection, folder)?.mailbox;
                // Another session may have cleared the flag, or removed some messages, in the meantime.
                let uids = still_deleted(connection, folder, &uids)?;
                if !uids.is_empty() {
                    folder::remove_entries(connection, folder, &uids)?;
                    touched.mailbox(mailbox);
                    touched.chores();
                }
                Ok::<_, MessageStoreError>(uids)
            })
        });
        let removed: Vec<Vec<u32>> =
            stream::iter(steps.collect::<Vec<_>>()).buffered(STEPS_AT_ONCE).try_collect().await?;
        Ok(removed.concat())
    }
}

/// The index of the messages with `\Deleted`, and the condition that it has, in the same words.
const FROM_DELETED: &str = "FROM drop_entries INDEXED BY drop_entries_deleted";
const IS_DELETED: &str = "flags & 8 <> 0";
const _: () = assert!(DELETED == 8);

impl MessageStore {
    /// Returns the number of messages with `\Deleted` of each folder, in the order of the folders.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn count_deleted(&self, folders: &[Folder]) -> Result<Vec<u32>, MessageStoreError> {
        let folders: Vec<_> = folders.iter().map(|folder| folder.id).collect();
        self.scan(move |connection| {
            let sql = format!("SELECT COUNT(*) {FROM_DELETED} WHERE folder_id = ?1 AND {IS_DELETED}");
            let mut statement = connection.prepare_cached(&sql)?;
            let count = |folder| Ok(statement.query_row(params![folder], |row| row.get(0))?);
            folders.into_iter().map(count).collect()
        })
        .await
    }
}

fn still_deleted(connection: &Connection, folder: FolderId, uids: &[u32]) -> Result<Vec<u32>, MessageStoreError> {
    let (Some(first), Some(last)) = (uids.first(), uids.last()) else { return Ok(Vec::new()) };
    let sql = format!(
        "SELECT uid {FROM_DELETED} WHERE folder_id = ?1 AND {IS_DELETED} AND uid BETWEEN ?2 AND ?3 ORDER BY uid"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params![folder, first, last], |row| row.get(0))?;
    let mut still: Vec<u32> = rows.collect::<Result<_, _>>()?;
    still.retain(|uid| uids.binary_search(uid).is_ok());
    Ok(still)
}

fn deleted(connection: &Connection, folder: FolderId) -> Result<Vec<u32>, MessageStoreError> {
    let sql = format!("SELECT uid {FROM_DELETED} WHERE folder_id = ?1 AND {IS_DELETED} ORDER BY uid");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params![folder], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
