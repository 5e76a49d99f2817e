//! How far imports are. The command that imports is another process than the server that shows it.

use mailapi_backend::ImportProgress;
use mailapi_model::{EmailAddress, FolderName, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, params};

use super::id::MailboxId;
use super::{MessageStore, MessageStoreError, damaged, mailbox};

/// Maximum number of imports that are listed. Interrupted ones stay until they are continued.
const MOST: u64 = 100;

/// Returns imports that run or were interrupted, the latest progress first.
pub(super) fn list(connection: &Connection) -> Result<Vec<ImportProgress>, MessageStoreError> {
    let sql = "SELECT m.address, i.folder, i.done, i.total, i.changed_at FROM drop_imports i
        JOIN drop_mailboxes m ON m.id = i.mailbox_id ORDER BY i.changed_at DESC, m.address LIMIT ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_and_then(params![MOST], |row| {
        let (address, folder): (String, String) = (row.get(0)?, row.get(1)?);
        Ok(ImportProgress {
            mailbox: address.parse().map_err(|_| damaged("an address"))?,
            folder: folder.parse().map_err(|_| damaged("a folder's name"))?,
            done: row.get(2)?,
            total: row.get(3)?,
            changed_at: Timestamp::from_millis(row.get(4)?),
        })
    })?;
    rows.collect()
}

/// Forgets the import of a mailbox.
pub(super) fn remove(connection: &Connection, mailbox: MailboxId) -> Result<(), StoreError> {
    connection.prepare_cached("DELETE FROM drop_imports WHERE mailbox_id = ?1")?.execute(params![mailbox])?;
    Ok(())
}

impl MessageStore {
    /// Records how far the import of a mailbox is in a folder. `total` is the number of messages in the source, if that
    /// is known.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMailbox`], or if the database fails.
    pub async fn note_import(
        &self,
        address: &EmailAddress,
        folder: &FolderName,
        done: u64,
        total: Option<u64>,
    ) -> Result<(), MessageStoreError> {
        let (address, folder, now) = (address.clone(), folder.as_str().to_owned(), self.clock().now());
        self.write(move |connection, _| {
            let mailbox = mailbox::expect(connection, &address)?.id;
            let sql = "INSERT OR REPLACE INTO drop_imports (mailbox_id, folder, done, total, changed_at)
                VALUES (?1, ?2, ?3, ?4, ?5)";
            let values = params![mailbox, folder, done, total, now.as_millis()];
            connection.prepare_cached(sql)?.execute(values)?;
            Ok(())
        })
        .await
    }

    /// Records that the import of a mailbox has ended.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMailbox`], or if the database fails.
    pub async fn end_import(&self, address: &EmailAddress) -> Result<(), MessageStoreError> {
        let address = address.clone();
        self.write(move |connection, _| Ok(remove(connection, mailbox::expect(connection, &address)?.id)?)).await
    }
}
