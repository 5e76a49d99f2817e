//! Rows of mailboxes and domains.

use mailapi_model::{EmailAddress, FolderName, MailboxOptions, Quota, SaveSent, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, params};

use super::id::MailboxId;
use super::{MessageStoreError, Touched, damaged, folder, import_progress, removed, renumber, rules};

/// Initial folders of a mailbox and their special uses (RFC 6154).
const FIRST_FOLDERS: [(&str, Option<&str>); 6] = [
    ("INBOX", None),
    ("Archive", Some("\\Archive")),
    (folder::DRAFTS.name, Some(folder::DRAFTS.special_use)),
    (folder::JUNK.name, Some(folder::JUNK.special_use)),
    (folder::SENT.name, Some(folder::SENT.special_use)),
    ("Trash", Some("\\Trash")),
];

/// Bytes of the quota that each message needs beyond [`ALWAYS_ALLOWED`]: about the disk space of a tiny message.
const LEAST_BYTES: u64 = 512;

/// Number of messages that a quota does not limit.
const ALWAYS_ALLOWED: u64 = 10_000;

/// A mailbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mailbox {
    pub(crate) id: MailboxId,
    pub(crate) quota: Quota,
}

impl Mailbox {
    /// Returns whether one more message with `size` bytes fits in the quota.
    ///
    /// A message takes disk space and memory beyond its bytes, so the quota of a mailbox with many messages also limits
    /// their number.
    pub(crate) fn has_room_for(&self, size: u64) -> bool {
        let Quota { limit_bytes, used_bytes, messages } = self.quota;
        let fits = |limit: u64| {
            let most = (limit / LEAST_BYTES).max(ALWAYS_ALLOWED);
            used_bytes.saturating_add(size) <= limit && messages < most
        };
        limit_bytes.is_none_or(fits)
    }
}

pub(crate) fn find(connection: &Connection, address: &EmailAddress) -> Result<Option<Mailbox>, StoreError> {
    let sql = "SELECT id, quota_bytes, used_bytes, messages FROM drop_mailboxes WHERE address = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row(params![address.as_str()], read).optional()?)
}

/// Returns the number of a mailbox, even if the rest of its row is damaged.
pub(super) fn number(connection: &Connection, address: &EmailAddress) -> Result<Option<MailboxId>, StoreError> {
    let sql = "SELECT id FROM drop_mailboxes WHERE address = ?1";
    Ok(connection.prepare_cached(sql)?.query_row(params![address.as_str()], |row| row.get(0)).optional()?)
}

pub(crate) fn expect(connection: &Connection, address: &EmailAddress) -> Result<Mailbox, MessageStoreError> {
    find(connection, address)?.ok_or(MessageStoreError::NoSuchMailbox)
}

pub(crate) fn by_id(connection: &Connection, id: MailboxId) -> Result<Mailbox, MessageStoreError> {
    let sql = "SELECT id, quota_bytes, used_bytes, messages FROM drop_mailboxes WHERE id = ?1";
    let found = connection.prepare_cached(sql)?.query_row(params![id], read).optional()?;
    found.ok_or(MessageStoreError::NoSuchMailbox)
}

/// Returns the address of a mailbox.
pub(crate) fn address(connection: &Connection, id: MailboxId) -> Result<EmailAddress, StoreError> {
    let sql = "SELECT address FROM drop_mailboxes WHERE id = ?1";
    let address: String = connection.prepare_cached(sql)?.query_row(params![id], |row| row.get(0))?;
    address.parse().map_err(|_| damaged("an address"))
}

/// Returns the address of the oldest mailbox that gets mail.
pub(crate) fn oldest(connection: &Connection) -> Result<Option<EmailAddress>, StoreError> {
    let sql = "SELECT m.address FROM drop_mailboxes m
        JOIN drop_domains d ON substr(m.address, -length(d.name) - 1) = '@' || d.name ORDER BY m.id LIMIT 1";
    let address: Option<String> = connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
    address.map(|address| address.parse().map_err(|_| damaged("an address"))).transpose()
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Mailbox> {
    let quota = Quota { limit_bytes: row.get(1)?, used_bytes: row.get(2)?, messages: row.get(3)? };
    Ok(Mailbox { id: row.get(0)?, quota })
}

/// Sets the quota, and creates a missing mailbox with its initial folders.
pub(crate) fn put(
    connection: &Connection,
    address: &EmailAddress,
    quota_bytes: Option<u64>,
    now: Timestamp,
) -> Result<MailboxId, MessageStoreError> {
    if let Some(mailbox) = find(connection, address)? {
        set_quota(connection, mailbox.id, quota_bytes)?;
        return Ok(mailbox.id);
    }
    let quota_bytes = quota_column(quota_bytes);
    let sql = "INSERT INTO drop_mailboxes (address, quota_bytes) VALUES (?1, ?2) RETURNING id";
    let id = connection
        .prepare_cached(sql)?
        .query_row(params![address.as_str(), quota_bytes], |row| row.get::<_, MailboxId>(0))?;
    for (name, special_use) in FIRST_FOLDERS {
        let name: FolderName = name.parse().map_err(|_| damaged("the name of a first folder"))?;
        folder::create(connection, id, &name, special_use, now)?;
        folder::subscribe(connection, id, &name)?;
    }
    Ok(id)
}

pub(crate) fn set_quota(connection: &Connection, id: MailboxId, quota_bytes: Option<u64>) -> Result<(), StoreError> {
    let sql = "UPDATE drop_mailboxes SET quota_bytes = ?2 WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![id, quota_column(quota_bytes)])?;
    Ok(())
}

/// Sets the options, and creates a missing mailbox with its initial folders.
pub(super) fn put_with(
    connection: &Connection,
    address: &EmailAddress,
    options: MailboxOptions,
    now: Timestamp,
) -> Result<(), MessageStoreError> {
    let id = put(connection, address, options.quota_bytes, now)?;
    Ok(set_save_sent(connection, id, options.save_sent)?)
}

pub(super) fn set_save_sent(connection: &Connection, id: MailboxId, save_sent: SaveSent) -> Result<(), StoreError> {
    let sql = "UPDATE drop_mailboxes SET save_sent = ?2 WHERE id = ?1 AND save_sent <> ?2";
    connection.prepare_cached(sql)?.execute(params![id, save_sent.as_str()])?;
    Ok(())
}

/// Returns which messages of the owner are copied to the folder for sent mail.
pub(crate) fn save_sent(connection: &Connection, id: MailboxId) -> Result<SaveSent, StoreError> {
    let sql = "SELECT save_sent FROM drop_mailboxes WHERE id = ?1";
    let name: String = connection.prepare_cached(sql)?.query_row(params![id], |row| row.get(0))?;
    name.parse().map_err(|_| damaged("an option of a mailbox"))
}

/// Converts a limit; one outside the column's range means no limit.
fn quota_column(quota_bytes: Option<u64>) -> Option<i64> {
    quota_bytes.and_then(|limit| i64::try_from(limit).ok())
}

/// Removes the mailbox and its contents. Returns whether there was one.
pub(crate) fn remove(
    connection: &Connection,
    address: &EmailAddress,
    now: Timestamp,
    touched: &mut Touched,
) -> Result<bool, MessageStoreError> {
    let Some(id) = number(connection, address)? else { return Ok(false) };
    // Its counters move with its folders.
    renumber::mend(connection, id, now, touched)?;
    // A later owner of the address must not get notices about queued mail of this one. Such mail is still delivered.
    let silence = "UPDATE drop_queue_recipients SET notify = 'NEVER'
        WHERE queue IN (SELECT id FROM drop_queue WHERE LOWER(sender) = ?1)";
    connection.prepare_cached(silence)?.execute(params![address.as_str()])?;
    rules::remove(connection, id)?;
    import_progress::remove(connection, id)?;
    // The folders are only detached here; their entries are deleted in the background.
    for folder in folder::list(connection, id)? {
        removed::take_away(connection, &folder)?;
    }
    for sql in ["DELETE FROM drop_subscriptions WHERE mailbox_id = ?1", "DELETE FROM drop_mailboxes WHERE id = ?1"] {
        connection.prepare_cached(sql)?.execute(params![id])?;
    }
    touched.mailbox(id);
    touched.chores();
    Ok(true)
}

/// Returns whether mail for the domain is delivered here. Takes A-labels.
pub(crate) fn is_local_domain(connection: &Connection, domain: &str) -> Result<bool, StoreError> {
    Ok(connection.prepare_cached("SELECT 1 FROM drop_domains WHERE name = ?1")?.exists(params![domain])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_limits_the_number_of_small_messages_too() {
        let mailbox = |limit_bytes, messages| Mailbox {
            id: MailboxId(1),
            quota: Quota { limit_bytes, used_bytes: messages, messages },
        };
        assert!(mailbox(Some(1 << 20), ALWAYS_ALLOWED - 1).has_room_for(1));
        assert!(!mailbox(Some(1 << 20), ALWAYS_ALLOWED).has_room_for(1));
        assert!(mailbox(Some(100 << 20), 200_000).has_room_for(1));
        assert!(!mailbox(Some(100 << 20), 204_800).has_room_for(1));
        assert!(mailbox(None, u64::MAX / 2).has_room_for(1));
        assert!(!mailbox(Some(10), 0).has_room_for(11));
    }
}
