//! Removed folders. Their entries are deleted later in small steps, so that deleting a folder of any size is
//! fast and other writers run between the steps.

use rusqlite::{Connection, OptionalExtension, params};

use super::id::{FolderId, MailboxId};
use super::{Folder, MessageStore, MessageStoreError, STEP, entry, folder, imported};

/// The mailbox of removed folders; see `migrations/`.
pub(super) const REMOVED: MailboxId = MailboxId(0);

impl MessageStore {
    /// Deletes some entries of removed folders. Returns the number of rows; zero means that none is left.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn remove_entries_once(&self) -> Result<usize, MessageStoreError> {
        // Usually no folder is left, and a read does not occupy the writer.
        if self.read(next).await?.is_none() {
            return Ok(0);
        }
        self.write_freeing(|connection, _| {
            let mut rows = 0;
            while let Some(folder) = next(connection)?.filter(|_| rows < STEP) {
                let most = STEP - rows;
                let removed = entry::remove_first(connection, folder, u32::MAX, most)?;
                let keys = imported::remove_first(connection, folder, most - removed)?;
                if removed + keys < most {
                    folder::remove(connection, folder)?;
                }
                rows += removed + keys + 1;
            }
            Ok(rows)
        })
        .await
    }
}

fn next(connection: &Connection) -> Result<Option<FolderId>, MessageStoreError> {
    let sql = "SELECT id FROM drop_folders WHERE mailbox_id = ?1 LIMIT 1";
    Ok(connection.prepare_cached(sql)?.query_row(params![REMOVED], |row| row.get(0)).optional()?)
}

/// Returns the number of messages that are left to delete.
pub(super) fn left(connection: &Connection) -> Result<u64, MessageStoreError> {
    let sql = "SELECT messages FROM drop_mailboxes WHERE id = ?1";
    Ok(connection.prepare_cached(sql)?.query_row(params![REMOVED], |row| row.get(0)).optional()?.unwrap_or_default())
}

/// Detaches a folder from its mailbox.
pub(super) fn take_away(connection: &Connection, folder: &Folder) -> Result<(), MessageStoreError> {
    // The triggers count per mailbox, so the counts move with the folder.
    let sql = "UPDATE drop_mailboxes SET messages = messages + ?2, used_bytes = used_bytes + ?3 WHERE id = ?1";
    let mut count = connection.prepare_cached(sql)?;
    let (messages, size) = (folder.messages.cast_signed(), folder.size.cast_signed());
    count.execute(params![folder.mailbox, -messages, -size])?;
    count.execute(params![REMOVED, messages, size])?;
    // Names are unique within a mailbox; the folder number is a unique one.
    let sql = "UPDATE drop_folders SET mailbox_id = ?2, name = id, special_use = NULL WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![folder.id, REMOVED])?;
    Ok(())
}
