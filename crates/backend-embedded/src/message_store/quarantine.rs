//! Quarantines mail without an owner, so that it is neither lost nor shown to the next owner of its address.

use mailapi_backend::Quarantined;
use mailapi_model::{EmailAddress, Timestamp};
use rusqlite::{Connection, params};

use super::{MessageStore, MessageStoreError, Touched, damaged, import_progress, mailbox, rules};

/// Detaches an existing mailbox from its address: an empty mailbox is removed, any other one is quarantined without its
/// rules and waiting answers.
pub(super) fn set_apart(
    connection: &Connection,
    address: &EmailAddress,
    now: Timestamp,
    touched: &mut Touched,
) -> Result<(), MessageStoreError> {
    let Some(found) = mailbox::find(connection, address)? else { return Ok(()) };
    touched.mailbox(found.id);
    if found.quota.messages == 0 {
        mailbox::remove(connection, address, now, touched)?;
        return Ok(());
    }
    // An answer that waits would leave in the name of the next owner.
    rules::remove(connection, found.id)?;
    import_progress::remove(connection, found.id)?;
    // A name without an @ is never looked up: mail to the address is refused, and logins fail.
    let sql = "UPDATE drop_mailboxes SET address = 'quarantine/' || id WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![found.id])?;
    let sql = "INSERT INTO drop_quarantine (mailbox_id, address, since) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![found.id, address.as_str(), now.as_millis()])?;
    tracing::warn!(mailbox = %address, messages = found.quota.messages, "quarantined mail without an owner");
    Ok(())
}

impl MessageStore {
    /// Returns the quarantined mailboxes, by address.
    pub(super) async fn kept_apart(&self) -> Result<Vec<Quarantined>, MessageStoreError> {
        self.read(|connection| {
            let sql = "SELECT q.address, m.messages, q.since FROM drop_quarantine q
                JOIN drop_mailboxes m ON m.id = q.mailbox_id ORDER BY q.address, q.mailbox_id";
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_and_then([], |row| {
                let address: String = row.get(0)?;
                let address = address.parse().map_err(|_| damaged("an address"))?;
                Ok(Quarantined { address, messages: row.get(1)?, since: Timestamp::from_millis(row.get(2)?) })
            })?;
            rows.collect()
        })
        .await
    }
}
