//! Removing messages that are marked as deleted.

use rusqlite::{Connection, params};

use super::flag_bits::DELETED;
use super::id::FolderId;
use super::{Maildrop, MaildropError, entry, folder};

impl Maildrop {
    /// Removes the messages that are `\Deleted`, all of them or only those of `uids` (UID EXPUNGE of RFC 4315).
    /// Answers the removed UIDs, ascending.
    ///
    /// # Errors
    /// [`MaildropError::NoSuchFolder`].
    pub async fn expunge(&self, folder: FolderId, uids: Option<Vec<u32>>) -> Result<Vec<u32>, MaildropError> {
        self.write(move |connection, touched| {
            let mailbox = folder::by_id(connection, folder)?.mailbox;
            let mut removed = deleted(connection, folder)?;
            if let Some(mut uids) = uids {
                uids.sort_unstable();
                removed.retain(|uid| uids.binary_search(uid).is_ok());
            }
            for uid in &removed {
                entry::remove(connection, folder, *uid)?;
            }
            if !removed.is_empty() {
                folder::next_modseq(connection, folder)?;
                touched.mailbox(mailbox);
                touched.chores();
            }
            Ok(removed)
        })
        .await
    }
}

fn deleted(connection: &Connection, folder: FolderId) -> Result<Vec<u32>, MaildropError> {
    let sql = "SELECT uid FROM drop_entries WHERE folder_id = ?1 AND flags & ?2 <> 0 ORDER BY uid";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![folder, DELETED], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
