//! Rows of folders.

use mailapi_backend::FolderInfo;
use mailapi_model::{FolderName, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::id::{FolderId, MailboxId};
use super::removed::REMOVED;
use super::renumber::HIGHEST_MODSEQ;
use super::{EntryState, MessageStoreError, damaged, entry, vanished};

const COLUMNS: &str = "id, mailbox_id, name, uid_validity, uid_next, highest_modseq, special_use, messages, unread, size, \
     first_recent";

/// A folder that the server itself stores messages in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpecialFolder {
    pub(super) name: &'static str,
    /// RFC 6154.
    pub(super) special_use: &'static str,
}

/// The folder for drafts.
pub(crate) const DRAFTS: SpecialFolder = SpecialFolder { name: "Drafts", special_use: "\\Drafts" };
/// The folder for junk.
pub(crate) const JUNK: SpecialFolder = SpecialFolder { name: "Junk", special_use: "\\Junk" };
/// The folder for sent mail.
pub(crate) const SENT: SpecialFolder = SpecialFolder { name: "Sent", special_use: "\\Sent" };

/// A folder's current state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Folder number, unchanged by a rename.
    pub id: FolderId,
    /// The mailbox that contains it.
    pub mailbox: MailboxId,
    /// Folder name.
    pub name: FolderName,
    /// UIDVALIDITY (RFC 3501 section 2.3.1.1).
    pub uid_validity: u32,
    /// The UID of the next message.
    pub uid_next: u32,
    /// Modification sequence of the last change (RFC 7162 section 3.1.2).
    pub highest_modseq: u64,
    /// Special use such as `\Drafts` (RFC 6154).
    pub special_use: Option<String>,
    /// Number of messages.
    pub messages: u64,
    /// Number of messages without `\Seen`.
    pub unread: u64,
    /// Total size of all messages in bytes.
    pub size: u64,
    /// The first UID that was not yet `\Recent` in any session.
    pub first_recent: u32,
}

impl Folder {
    /// Returns a number that no other folder ever has, even if the store's file is lost: see [`create`]. A rename keeps it.
    pub(crate) fn object_id(&self) -> u64 {
        u64::from(self.uid_validity)
    }
}

impl From<Folder> for FolderInfo {
    fn from(folder: Folder) -> Self {
        Self { name: folder.name, messages: folder.messages, unread: folder.unread, size: folder.size }
    }
}

/// A folder and its entries at one point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderSnapshot {
    /// The folder.
    pub folder: Folder,
    /// Entries by ascending UID.
    pub entries: Vec<EntryState>,
}

pub(crate) fn list(connection: &Connection, mailbox: MailboxId) -> Result<Vec<Folder>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM drop_folders WHERE mailbox_id = ?1 ORDER BY name <> 'INBOX', name");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_and_then(params![mailbox], read)?;
    rows.collect()
}

pub(crate) fn by_name(
    connection: &Connection,
    mailbox: MailboxId,
    name: &FolderName,
) -> Result<Option<Folder>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM drop_folders WHERE mailbox_id = ?1 AND name = ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query_and_then(params![mailbox, name.as_str()], read)?;
    rows.next().transpose()
}

pub(crate) fn expect(
    connection: &Connection,
    mailbox: MailboxId,
    name: &FolderName,
) -> Result<Folder, MessageStoreError> {
    by_name(connection, mailbox, name)?.ok_or(MessageStoreError::NoSuchFolder)
}

/// Returns the number of a mailbox's INBOX.
pub(crate) fn inbox(connection: &Connection, mailbox: MailboxId) -> Result<FolderId, MessageStoreError> {
    let sql = "SELECT id FROM drop_folders WHERE mailbox_id = ?1 AND name = 'INBOX'";
    let id = connection.prepare_cached(sql)?.query_row(params![mailbox], |row| row.get(0)).optional()?;
    id.ok_or(MessageStoreError::NoSuchFolder)
}

/// Returns a special folder and its name: the one with that special use, or the one of that name. A missing one is
/// created.
pub(crate) fn special(
    connection: &Connection,
    mailbox: MailboxId,
    special: SpecialFolder,
    now: Timestamp,
) -> Result<(FolderId, FolderName), MessageStoreError> {
    if let Some(found) = find_special(connection, mailbox, special)? {
        return Ok(found);
    }
    let SpecialFolder { name, special_use } = special;
    let name: FolderName = name.parse().map_err(|_| damaged("the name of a special folder"))?;
    let id = create(connection, mailbox, &name, Some(special_use), now)?;
    subscribe(connection, mailbox, &name)?;
    Ok((id, name))
}

/// Returns a special folder and its name, if there is one.
pub(super) fn find_special(
    connection: &Connection,
    mailbox: MailboxId,
    SpecialFolder { name, special_use }: SpecialFolder,
) -> Result<Option<(FolderId, FolderName)>, StoreError> {
    let sql = "SELECT id, name FROM drop_folders WHERE mailbox_id = ?1 AND (special_use = ?2 OR name = ?3)
        ORDER BY special_use = ?2 DESC, id LIMIT 1";
    let found = connection
        .prepare_cached(sql)?
        .query_row(params![mailbox, special_use, name], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))
        .optional()?;
    found.map(|(id, name)| Ok((id, name.parse().map_err(|_| damaged("a folder's name"))?))).transpose()
}

/// Returns a folder that was not removed.
pub(crate) fn by_id(connection: &Connection, id: FolderId) -> Result<Folder, MessageStoreError> {
    // Removed folders keep their row until their entries are deleted.
    let sql = format!("SELECT {COLUMNS} FROM drop_folders WHERE id = ?1 AND mailbox_id <> ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query_and_then(params![id, REMOVED], read)?;
    rows.next().transpose()?.ok_or(MessageStoreError::NoSuchFolder)
}

fn read(row: &Row<'_>) -> Result<Folder, StoreError> {
    let name: String = row.get(2)?;
    Ok(Folder {
        id: row.get(0)?,
        mailbox: row.get(1)?,
        name: name.parse().map_err(|_| damaged("a folder's name"))?,
        uid_validity: row.get(3)?,
        uid_next: row.get(4)?,
        highest_modseq: row.get(5)?,
        special_use: row.get(6)?,
        messages: row.get(7)?,
        unread: row.get(8)?,
        size: row.get(9)?,
        first_recent: row.get(10)?,
    })
}

/// Creates a folder with a UIDVALIDITY above all earlier ones.
pub(crate) fn create(
    connection: &Connection,
    mailbox: MailboxId,
    name: &FolderName,
    special_use: Option<&str>,
    now: Timestamp,
) -> Result<FolderId, MessageStoreError> {
    let sql = "INSERT INTO drop_folders (mailbox_id, name, uid_validity, special_use) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT DO NOTHING RETURNING id";
    let uid_validity = next_uid_validity(connection, now)?;
    let values = params![mailbox, name.as_str(), uid_validity, special_use];
    let id = connection.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()?;
    id.ok_or(MessageStoreError::FolderExists)
}

pub(crate) fn has_special_use(
    connection: &Connection,
    mailbox: MailboxId,
    special_use: &str,
) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM drop_folders WHERE mailbox_id = ?1 AND special_use = ?2";
    Ok(connection.prepare_cached(sql)?.exists(params![mailbox, special_use])?)
}

/// Returns the current second, or one above the last value if that is higher. A store that lost its file
/// therefore does not reuse old values. After the highest value, as after a clock that was far ahead, the values start again
/// at the current second: no folder could be created otherwise.
pub(super) fn next_uid_validity(connection: &Connection, now: Timestamp) -> Result<u32, StoreError> {
    let sql = "UPDATE drop_uid_validity
        SET last = CASE WHEN typeof(last) = 'integer' AND last < ?2 THEN MAX(last + 1, ?1) ELSE ?1 END RETURNING last";
    let seconds = now.as_seconds().clamp(1, i64::from(u32::MAX) - 1);
    Ok(connection.prepare_cached(sql)?.query_row(params![seconds, u32::MAX], |row| row.get(0))?)
}

/// UIDs of new entries, and their common modification sequence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) first_uid: u32,
    pub(crate) modseq: u64,
}

pub(crate) fn allocate(connection: &Connection, folder: FolderId, count: u32) -> Result<Numbers, MessageStoreError> {
    let sql = "UPDATE drop_folders SET uid_next = uid_next + ?2, highest_modseq = highest_modseq + 1
        WHERE id = ?1 AND uid_next BETWEEN 1 AND ?3 - ?2 AND highest_modseq BETWEEN 0 AND ?4
        RETURNING uid_next - ?2, highest_modseq";
    let values = params![folder, count, u32::MAX, HIGHEST_MODSEQ];
    let numbers = connection
        .prepare_cached(sql)?
        .query_row(values, |row| Ok(Numbers { first_uid: row.get(0)?, modseq: row.get(1)? }))
        .optional()?;
    numbers.ok_or_else(|| without_numbers(connection, folder))
}

/// Returns why a folder has no further numbers: it was removed, or they are used up or damaged.
fn without_numbers(connection: &Connection, folder: FolderId) -> MessageStoreError {
    by_id(connection, folder).err().unwrap_or(MessageStoreError::FolderIsFull)
}

/// Returns the modification sequence of a change without new entries.
pub(crate) fn next_modseq(connection: &Connection, folder: FolderId) -> Result<u64, MessageStoreError> {
    let sql = "UPDATE drop_folders SET highest_modseq = highest_modseq + 1
        WHERE id = ?1 AND highest_modseq BETWEEN 0 AND ?2 RETURNING highest_modseq";
    let modseq =
        connection.prepare_cached(sql)?.query_row(params![folder, HIGHEST_MODSEQ], |row| row.get(0)).optional()?;
    modseq.ok_or_else(|| without_numbers(connection, folder))
}

pub(crate) fn rename(connection: &Connection, id: FolderId, name: &FolderName) -> Result<(), StoreError> {
    let sql = "UPDATE drop_folders SET name = ?2 WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![id, name.as_str()])?;
    Ok(())
}

/// Removes entries, whose UIDs ascend, and records the UIDs for clients that come back.
pub(crate) fn remove_entries(connection: &Connection, id: FolderId, uids: &[u32]) -> Result<(), MessageStoreError> {
    entry::remove_some(connection, id, uids)?;
    let modseq = next_modseq(connection, id)?;
    Ok(vanished::add(connection, id, modseq, uids)?)
}

/// Removes a folder without entries.
pub(crate) fn remove(connection: &Connection, id: FolderId) -> Result<(), StoreError> {
    vanished::remove_all(connection, id)?;
    connection.prepare_cached("DELETE FROM drop_folders WHERE id = ?1")?.execute(params![id])?;
    Ok(())
}

pub(crate) fn subscribe(connection: &Connection, mailbox: MailboxId, name: &FolderName) -> Result<(), StoreError> {
    let sql = "INSERT INTO drop_subscriptions (mailbox_id, name) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    connection.prepare_cached(sql)?.execute(params![mailbox, name.as_str()])?;
    Ok(())
}

pub(crate) fn unsubscribe(connection: &Connection, mailbox: MailboxId, name: &FolderName) -> Result<(), StoreError> {
    let sql = "DELETE FROM drop_subscriptions WHERE mailbox_id = ?1 AND name = ?2";
    connection.prepare_cached(sql)?.execute(params![mailbox, name.as_str()])?;
    Ok(())
}

pub(crate) fn subscriptions(connection: &Connection, mailbox: MailboxId) -> Result<Vec<FolderName>, StoreError> {
    let sql = "SELECT name FROM drop_subscriptions WHERE mailbox_id = ?1 ORDER BY name";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_and_then(params![mailbox], |row| {
        let name: String = row.get(0)?;
        name.parse().map_err(|_| damaged("a subscription"))
    })?;
    rows.collect()
}
