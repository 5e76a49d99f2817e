//! Removes unreferenced bytes and old records.

use rusqlite::{Connection, params};

use super::id::ContentId;
use super::{MessageStore, MessageStoreError, content};

impl MessageStore {
    /// Removes some unreferenced messages. Returns their number; zero means that none is left.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn collect_garbage_once(&self) -> Result<usize, MessageStoreError> {
        let most = self.settings().sweep_batch;
        // Usually no message is unreferenced, and a read does not occupy the writer.
        if self.read(|connection| unreferenced(connection, 1)).await?.is_empty() {
            return Ok(0);
        }
        self.write_freeing(move |connection, _| {
            let unreferenced = unreferenced(connection, most)?;
            for content in &unreferenced {
                content::remove(connection, *content)?;
            }
            Ok(unreferenced.len())
        })
        .await
    }

    /// Prunes some old records of messages accepted from the API. Returns their number.
    ///
    /// # Errors
    /// If the database fails.
    pub(crate) async fn forget_accepted_once(&self) -> Result<usize, MessageStoreError> {
        let before = self.clock().now().minus(self.settings().accepted_memory);
        let most = self.settings().accepted_batch;
        let oldest = "SELECT 1 FROM drop_accepted WHERE accepted_at < ?1";
        let any = self
            .read(|connection| {
                Ok::<_, MessageStoreError>(connection.prepare_cached(oldest)?.exists([before.as_millis()])?)
            })
            .await?;
        if !any {
            return Ok(0);
        }
        self.write_freeing(move |connection, _| {
            let sql = "DELETE FROM drop_accepted WHERE message_uuid IN
                (SELECT message_uuid FROM drop_accepted WHERE accepted_at < ?1 LIMIT ?2)";
            Ok(connection.prepare_cached(sql)?.execute(params![before.as_millis(), most])?)
        })
        .await
    }
}

fn unreferenced(connection: &Connection, most: usize) -> Result<Vec<ContentId>, MessageStoreError> {
    let mut statement = connection.prepare_cached("SELECT id FROM drop_messages WHERE refs = 0 LIMIT ?1")?;
    let rows = statement.query_map(params![most], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
