//! Lists messages with one indexed query, without bytes and structures.

use mailapi_backend::{Correspondent, MessageSummary, PageView, Validator};
use mailapi_model::{EmailAddress, FolderName, Listed, Page, Timestamp};
use rusqlite::{Connection, Row, params};

use super::flag_bits::from_columns;
use super::id::FolderId;
use super::{MessageStoreError, entry, people};

const COLUMNS: &str = "e.uid, m.message_id, m.from_name, m.from_email, m.to_list, m.subject, m.date, e.size, e.flags,
    e.keywords, m.attachments, e.delivered_to, e.recipient";

/// The state of a folder that a listing and its validator need.
struct FolderState {
    folder: FolderId,
    /// Raised by every change of the folder's entries, in the same transaction (RFC 7162 section 3.1.2).
    highest_modseq: u64,
    messages: u64,
}

impl FolderState {
    fn at(connection: &Connection, mailbox: &EmailAddress, folder: &FolderName) -> Result<Self, MessageStoreError> {
        let sql = "SELECT f.id, f.highest_modseq, f.messages FROM drop_mailboxes m
            LEFT JOIN drop_folders f ON f.mailbox_id = m.id AND f.name = ?2 WHERE m.address = ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params![mailbox.as_str(), folder.as_str()])?;
        let row = rows.next()?.ok_or(MessageStoreError::NoSuchMailbox)?;
        let folder = row.get::<_, Option<FolderId>>(0)?.ok_or(MessageStoreError::NoSuchFolder)?;
        Ok(Self { folder, highest_modseq: row.get(1)?, messages: row.get(2)? })
    }

    /// Returns the validator. Folder numbers are never reused, so a recreated folder gets other validators.
    fn validator(&self) -> Validator {
        Validator::new([self.folder.0.cast_unsigned(), self.highest_modseq])
    }

    fn page(&self, connection: &Connection, page: Page) -> Result<Listed<MessageSummary>, MessageStoreError> {
        if page.offset() >= self.messages {
            return Ok(Listed { total: self.messages, items: Vec::new() });
        }
        // The inner query walks only the entries' key, so a skipped entry does not read its message.
        let sql = format!(
            "SELECT {COLUMNS} FROM (
                SELECT * FROM drop_entries WHERE folder_id = ?1 ORDER BY uid DESC LIMIT ?2 OFFSET ?3
            ) e JOIN drop_messages m ON m.id = e.message_id ORDER BY e.uid DESC"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map(params![self.folder, page.limit(), page.offset()], read)?;
        Ok(Listed { total: self.messages, items: rows.collect::<Result<_, _>>()? })
    }
}

/// Returns whether a folder is unchanged since the validator `seen`.
pub(crate) fn is_unchanged(
    connection: &Connection,
    mailbox: &EmailAddress,
    folder: &FolderName,
    seen: Validator,
) -> Result<bool, MessageStoreError> {
    Ok(FolderState::at(connection, mailbox, folder)?.validator() == seen)
}

/// Returns one page of a folder, newest first. The total comes from the folder's counter.
pub(crate) fn view(
    connection: &Connection,
    mailbox: &EmailAddress,
    folder: &FolderName,
    page: Page,
) -> Result<PageView, MessageStoreError> {
    let state = FolderState::at(connection, mailbox, folder)?;
    Ok(PageView::Now { listed: state.page(connection, page)?, validator: Some(state.validator()) })
}

fn read(row: &Row<'_>) -> rusqlite::Result<MessageSummary> {
    let flags = from_columns(row.get(8)?, row.get_ref(9)?.as_str()?);
    Ok(MessageSummary {
        uid: row.get(0)?,
        message_id: row.get(1)?,
        from: Correspondent { name: row.get(2)?, email: row.get(3)? },
        to: people::from_column(row.get_ref(4)?.as_str()?),
        subject: row.get(5)?,
        date: Timestamp::from_millis(row.get(6)?),
        size: row.get(7)?,
        flags: flags.words().map(str::to_owned).collect(),
        has_attachments: row.get::<_, u64>(10)? > 0,
        recipient: entry::recipient(row.get(11)?, row.get(12)?),
    })
}
