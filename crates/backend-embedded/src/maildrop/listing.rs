//! What a listing shows of messages: one indexed query, no octets and no digest.

use mailapi_backend::{Correspondent, MessageSummary};
use mailapi_model::{EmailAddress, FolderName, Listed, Page, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::flag_bits::from_columns;
use super::id::FolderId;
use super::{MaildropError, folder, mailbox, people};

const COLUMNS: &str = "e.uid, m.message_id, m.from_name, m.from_email, m.to_list, m.subject, m.date, e.size, e.flags,
    e.keywords, m.attachments";

/// One page of a folder, newest first. The total comes from the folder's counter.
pub(crate) fn page(
    connection: &Connection,
    mailbox: &EmailAddress,
    folder: &FolderName,
    page: Page,
) -> Result<Listed<MessageSummary>, MaildropError> {
    let mailbox = mailbox::expect(connection, mailbox)?;
    let folder = folder::expect(connection, mailbox.id, folder)?;
    if page.offset() >= folder.messages {
        return Ok(Listed { total: folder.messages, items: Vec::new() });
    }
    // The inner query walks the entries' key alone, so that a skipped entry costs no look at its message.
    let sql = format!(
        "SELECT {COLUMNS} FROM (
            SELECT * FROM drop_entries WHERE folder_id = ?1 ORDER BY uid DESC LIMIT ?2 OFFSET ?3
        ) e JOIN drop_messages m ON m.id = e.message_id ORDER BY e.uid DESC"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params![folder.id, page.limit(), page.offset()], read)?;
    Ok(Listed { total: folder.messages, items: rows.collect::<Result<_, _>>()? })
}

/// One message of a folder.
pub(crate) fn summary(
    connection: &Connection,
    folder: FolderId,
    uid: u32,
) -> Result<Option<MessageSummary>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM drop_entries e JOIN drop_messages m ON m.id = e.message_id
            WHERE e.folder_id = ?1 AND e.uid = ?2"
    );
    Ok(connection.prepare_cached(&sql)?.query_row(params![folder, uid], read).optional()?)
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
    })
}
