//! Removes messages marked as deleted.

use rusqlite::{Connection, params};

use super::flag_bits::DELETED;
use super::id::FolderId;
use super::{MessageStore, MessageStoreError, STEP, Touched, entry, folder};

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
        let mut removed = Vec::with_capacity(wanted.len());
        for uids in wanted.chunks(STEP) {
            let uids = uids.to_vec();
            let step = move |connection: &Connection, touched: &mut Touched| {
                let mailbox = folder::by_id(connection, folder)?.mailbox;
                // Another session may have cleared the flag, or removed some messages, in the meantime.
                let uids = still_deleted(connection, folder, &uids)?;
                if !uids.is_empty() {
                    entry::remove_some(connection, folder, &uids)?;
                    folder::next_modseq(connection, folder)?;
                    touched.mailbox(mailbox);
                    touched.chores();
                }
                Ok::<_, MessageStoreError>(uids)
            };
            removed.extend(self.write(step).await?);
        }
        Ok(removed)
    }
}

fn still_deleted(connection: &Connection, folder: FolderId, uids: &[u32]) -> Result<Vec<u32>, MessageStoreError> {
    let (Some(first), Some(last)) = (uids.first(), uids.last()) else { return Ok(Vec::new()) };
    let sql = "SELECT uid FROM drop_entries
        WHERE folder_id = ?1 AND flags & ?2 <> 0 AND uid BETWEEN ?3 AND ?4 ORDER BY uid";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![folder, DELETED, first, last], |row| row.get(0))?;
    let mut still: Vec<u32> = rows.collect::<Result<_, _>>()?;
    still.retain(|uid| uids.binary_search(uid).is_ok());
    Ok(still)
}

fn deleted(connection: &Connection, folder: FolderId) -> Result<Vec<u32>, MessageStoreError> {
    let sql = "SELECT uid FROM drop_entries WHERE folder_id = ?1 AND flags & ?2 <> 0 ORDER BY uid";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![folder, DELETED], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
