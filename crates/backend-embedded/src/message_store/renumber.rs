//! New numbers for folders whose numbers are used up or damaged.
//!
//! A source of an import can claim any UID, and a damaged file can have any number. A folder near the end of the UIDs
//! gets a new UIDVALIDITY, and its messages get UIDs from 1 (RFC 9051 section 2.3.1.1). It gets a new row, too: a session
//! that has selected the folder then finds it gone, so no UID that it holds names another message.

use mailapi_model::{EmailAddress, FolderName, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, params};

use super::id::{FolderId, MailboxId};
use super::removed::REMOVED;
use super::{Folder, MessageStore, MessageStoreError, Touched, folder, mailbox};

/// UIDs that a folder must have left. Fewer count as used up, so that no single command, nor an import of as many messages
/// as the list of a source may name, reaches the end.
const LEAST_ROOM: u32 = 1 << 24;

/// The highest UIDNEXT of a folder that needs no new numbers.
const HIGHEST_UID_NEXT: u32 = u32::MAX - LEAST_ROOM;

/// The highest modification sequence that is believed: half of those that RFC 7162 section 3.1 allows.
pub(super) const HIGHEST_MODSEQ: u64 = 1 << 62;

/// The largest size of a folder that is believed, four petabytes: those of all folders of a mailbox can be added.
const HIGHEST_SIZE: u64 = 1 << 52;

/// The first modification sequence of a change: a folder without any change has 1.
const FIRST_MODSEQ: u64 = 2;

/// Columns of a folder with a number, and the range of each.
const RANGES: [(&str, u64, u64); 9] = [
    ("uid_validity", 1, u32::MAX as u64),
    ("uid_next", 1, HIGHEST_UID_NEXT as u64),
    ("highest_modseq", 0, HIGHEST_MODSEQ),
    ("vanished_after", 0, HIGHEST_MODSEQ),
    ("first_recent", 0, u32::MAX as u64),
    ("COALESCE(source_uid_next, 1)", 1, u32::MAX as u64),
    ("messages", 0, u32::MAX as u64),
    ("unread", 0, u32::MAX as u64),
    ("size", 0, HIGHEST_SIZE),
];

/// A mailbox that cannot take mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenMailbox {
    /// Its address.
    pub address: EmailAddress,
    /// The reason.
    pub reason: String,
}

impl Folder {
    /// Returns whether so few UIDs are left that the folder needs new ones.
    pub(super) const fn is_used_up(&self) -> bool {
        self.uid_next > HIGHEST_UID_NEXT
    }
}

impl MessageStore {
    /// Gives new numbers to the folders of a mailbox that need them. Returns the number of changes.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMailbox`].
    pub async fn mend_mailbox(&self, address: &EmailAddress) -> Result<usize, MessageStoreError> {
        let (address, now) = (address.clone(), self.clock().now());
        // A purge begins with it.
        self.write_freeing(move |connection, touched| {
            let mailbox = mailbox::number(connection, &address)?.ok_or(MessageStoreError::NoSuchMailbox)?;
            mend(connection, mailbox, now, touched)
        })
        .await
    }

    /// Gives new numbers to all folders that need them. Returns the addresses of their mailboxes.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn mend_all(&self) -> Result<Vec<EmailAddress>, MessageStoreError> {
        let mut mended: Vec<EmailAddress> = Vec::new();
        for BrokenMailbox { address, reason } in self.broken_mailboxes().await? {
            if mended.contains(&address) {
                continue;
            }
            match self.mend_mailbox(&address).await {
                Ok(0) => {}
                Ok(_) => {
                    tracing::warn!(mailbox = %address, reason, "mailbox mended");
                    mended.push(address);
                }
                Err(error) => tracing::error!(mailbox = %address, reason, %error, "mailbox cannot be mended"),
            }
        }
        Ok(mended)
    }

    /// Returns the mailboxes that cannot take mail, or soon could not.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn broken_mailboxes(&self) -> Result<Vec<BrokenMailbox>, MessageStoreError> {
        self.scan(|connection| Ok(broken(connection)?)).await
    }
}

/// Returns a folder with enough free UIDs: the same one, or the one that has replaced it.
pub(super) fn with_room(
    connection: &Connection,
    folder: Folder,
    now: Timestamp,
    touched: &mut Touched,
) -> Result<Folder, MessageStoreError> {
    if !folder.is_used_up() {
        return Ok(folder);
    }
    let id = replace(connection, folder.id, now)?;
    touched.mailbox(folder.mailbox);
    touched.chores();
    folder::by_id(connection, id)
}

/// Mends what a mailbox needs to take mail: the numbers of its folders, its counters, and a missing INBOX. Returns the
/// number of changes.
pub(crate) fn mend(
    connection: &Connection,
    mailbox: MailboxId,
    now: Timestamp,
    touched: &mut Touched,
) -> Result<usize, MessageStoreError> {
    let unsound = unsound_folders(connection, mailbox)?;
    for folder in &unsound {
        replace(connection, *folder, now)?;
    }
    let sql = "SELECT 1 FROM drop_folders WHERE mailbox_id = ?1 AND name = 'INBOX'";
    let lacks_inbox = !connection.prepare_cached(sql)?.exists(params![mailbox])?;
    if lacks_inbox {
        folder::create(connection, mailbox, &FolderName::inbox(), None, now)?;
    }
    let recounted = recount(connection, mailbox)?;
    let changes = unsound.len() + usize::from(lacks_inbox) + recounted;
    if changes > 0 {
        touched.mailbox(mailbox);
        touched.chores();
    }
    Ok(changes)
}

/// Returns the condition that all numbers of a folder are in their ranges.
fn are_in_range() -> String {
    let in_range = |(column, least, most): &(&str, u64, u64)| {
        format!("typeof({column}) = 'integer' AND {column} BETWEEN {least} AND {most}")
    };
    let ranges: Vec<String> = RANGES.iter().map(in_range).collect();
    format!("({})", ranges.join(" AND "))
}

fn unsound_folders(connection: &Connection, mailbox: MailboxId) -> Result<Vec<FolderId>, StoreError> {
    let highest = "SELECT MAX(uid) FROM drop_entries WHERE folder_id = drop_folders.id";
    let is_next_new = format!("uid_next > COALESCE(({highest}), 0)");
    let sql =
        format!("SELECT id FROM drop_folders WHERE mailbox_id = ?1 AND NOT ({} AND {is_next_new})", are_in_range());
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map(params![mailbox], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Moves the messages of a folder to a new row with new numbers. All of them move in one transaction, since a folder
/// cannot have two UIDVALIDITYs. It is rare: UIDs are used up after billions of messages.
fn replace(connection: &Connection, old: FolderId, now: Timestamp) -> Result<FolderId, MessageStoreError> {
    let sql = "SELECT mailbox_id, name, special_use FROM drop_folders WHERE id = ?1";
    let (mailbox, name, special_use) = connection.prepare_cached(sql)?.query_row(params![old], |row| {
        Ok((row.get::<_, MailboxId>(0)?, row.get::<_, String>(1)?, row.get::<_, Option<String>>(2)?))
    })?;
    // A name is free when its folder belongs to the mailbox of removed ones. Background maintenance deletes the row.
    let sql =
        "UPDATE drop_folders SET mailbox_id = ?2, name = id, special_use = NULL, messages = 0, unread = 0, size = 0,
        uid_next = 1, highest_modseq = 1, vanished_after = 0, first_recent = 1, source_uid_next = NULL WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![old, REMOVED])?;
    let sql = "INSERT INTO drop_folders (mailbox_id, name, uid_validity, special_use, highest_modseq, vanished_after)
        VALUES (?1, ?2, ?3, ?4, ?5, ?5) RETURNING id";
    let uid_validity = folder::next_uid_validity(connection, now)?;
    let values = params![mailbox, name, uid_validity, special_use, FIRST_MODSEQ];
    let new: FolderId = connection.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
    move_entries(connection, old, new)?;
    tracing::warn!(folder = new.0, uid_validity, "a folder got new UIDs, since the old ones were used up or damaged");
    Ok(new)
}

/// Moves entries in the order of their UIDs, and counts them: the triggers count additions and removals.
fn move_entries(connection: &Connection, old: FolderId, new: FolderId) -> Result<(), StoreError> {
    let sql = "UPDATE drop_entries SET folder_id = ?2, uid = numbered.number, modseq = ?3
        FROM (SELECT uid AS before, ROW_NUMBER() OVER (ORDER BY uid) AS number FROM drop_entries WHERE folder_id = ?1)
            AS numbered
        WHERE folder_id = ?1 AND uid = numbered.before";
    connection.prepare(sql)?.execute(params![old, new, FIRST_MODSEQ])?;
    let sql = "UPDATE drop_imported SET folder_id = ?2 WHERE folder_id = ?1";
    connection.prepare(sql)?.execute(params![old, new])?;
    let sql = "UPDATE drop_folders
        SET messages = counted.messages, unread = counted.unread, size = counted.size,
            uid_next = counted.messages + 1, first_recent = counted.messages + 1
        FROM (SELECT COUNT(*) AS messages, COALESCE(SUM((flags & 1) = 0), 0) AS unread, COALESCE(SUM(size), 0) AS size
            FROM drop_entries WHERE folder_id = ?1) AS counted
        WHERE id = ?1";
    connection.prepare(sql)?.execute(params![new])?;
    Ok(())
}

/// Corrects the counters of a mailbox. Returns the number of changed rows.
fn recount(connection: &Connection, mailbox: MailboxId) -> Result<usize, StoreError> {
    let sql = "UPDATE drop_mailboxes SET messages = counted.messages, used_bytes = counted.size
        FROM (SELECT COALESCE(SUM(messages), 0) AS messages, COALESCE(SUM(size), 0) AS size
            FROM drop_folders WHERE mailbox_id = ?1) AS counted
        WHERE id = ?1 AND (drop_mailboxes.messages IS NOT counted.messages OR used_bytes IS NOT counted.size)";
    let counters = connection.prepare(sql)?.execute(params![mailbox])?;
    // The account has the limit; it is set again at the next start.
    let sql = "UPDATE drop_mailboxes SET quota_bytes = NULL
        WHERE id = ?1 AND quota_bytes IS NOT NULL AND NOT (typeof(quota_bytes) = 'integer' AND quota_bytes >= 0)";
    Ok(counters + connection.prepare(sql)?.execute(params![mailbox])?)
}

/// Reads the rows of folders and mailboxes alone: those of entries may be a hundred times as many.
fn broken(connection: &Connection) -> Result<Vec<BrokenMailbox>, StoreError> {
    let folders = format!(
        "SELECT m.address, 'the numbers of the folder ' || f.name || ' are used up or damaged'
            FROM (SELECT * FROM drop_folders WHERE mailbox_id <> ?1 AND NOT {}) f
            JOIN drop_mailboxes m ON m.id = f.mailbox_id",
        are_in_range()
    );
    let inboxes = "SELECT address, 'the INBOX is missing' FROM drop_mailboxes m WHERE id <> ?1
        AND NOT EXISTS (SELECT 1 FROM drop_folders WHERE mailbox_id = m.id AND name = 'INBOX')";
    let counters = "SELECT address, 'its counters are damaged' FROM drop_mailboxes WHERE id <> ?1 AND NOT (
        typeof(used_bytes) = 'integer' AND used_bytes >= 0 AND typeof(messages) = 'integer' AND messages >= 0
        AND (quota_bytes IS NULL OR (typeof(quota_bytes) = 'integer' AND quota_bytes >= 0)))";
    let mut found = Vec::new();
    for sql in [folders.as_str(), inboxes, counters] {
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query(params![REMOVED])?;
        while let Some(row) = rows.next()? {
            // Quarantined mailboxes take no mail; their names are not addresses.
            if let Ok(address) = row.get_ref(0)?.as_str().unwrap_or_default().parse() {
                found.push(BrokenMailbox { address, reason: row.get(1)? });
            }
        }
    }
    found.extend(with_broken_rules(connection)?);
    Ok(found)
}

/// Returns the mailboxes whose rules cannot be read.
fn with_broken_rules(connection: &Connection) -> Result<Vec<BrokenMailbox>, StoreError> {
    let sql = "SELECT m.id, m.address FROM drop_rules r JOIN drop_mailboxes m ON m.id = r.mailbox_id";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, MailboxId>(0)?, row.get::<_, String>(1)?)))?;
    let mut found = Vec::new();
    for row in rows {
        let (mailbox, address) = row?;
        if let (Err(error @ StoreError::Unexpected(_)), Ok(address)) =
            (super::rules::find(connection, mailbox), address.parse())
        {
            found.push(BrokenMailbox { address, reason: error.to_string() });
        }
    }
    Ok(found)
}
