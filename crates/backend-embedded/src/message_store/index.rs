//! Indexes texts in the background, so that accepting mail stays fast.

use mailapi_backend::mime::SearchableText;
pub(crate) use mailapi_backend::mime::comparable;
use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, params};

use super::id::{ContentId, MailboxId};
use super::{MessageStore, MessageStoreError, content, pieces};
use crate::MessageStoreSettings;

/// The decoded text of a message.
struct Extracted {
    content: ContentId,
    text: String,
}

impl MessageStore {
    /// Indexes some waiting messages. Returns their number; zero means that none is left.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn index_once(&self) -> Result<usize, MessageStoreError> {
        let settings = self.settings().clone();
        // Decoding takes long, so it runs before the write and without the writer.
        let (extracted, settings) = self
            .scan(move |connection| Ok::<_, MessageStoreError>((extract(connection, &settings)?, settings)))
            .await?;
        let count = extracted.len();
        if count > 0 {
            self.write(move |connection, _| {
                extracted.iter().try_for_each(|one| put(connection, one, settings.max_indexed_bytes))
            })
            .await?;
        }
        Ok(count)
    }
}

/// Queues a new message for indexing, once.
pub(crate) fn enqueue(connection: &Connection, content: ContentId) -> Result<(), StoreError> {
    let sql = "INSERT INTO drop_unindexed (message_id) VALUES (?1) ON CONFLICT DO NOTHING";
    connection.prepare_cached(sql)?.execute(params![content])?;
    Ok(())
}

/// Returns the number of messages that are not in the index yet. Those that are too long for it stay in the table.
pub(super) fn left(connection: &Connection) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM drop_unindexed WHERE too_long = 0";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Extracts the text of a message from its bytes.
pub(crate) fn text_of(connection: &Connection, content: ContentId) -> Result<String, MessageStoreError> {
    let layout = content::layout(connection, content)?;
    let structure = content::structure(connection, content)?;
    let text = SearchableText::read(&structure, |span| {
        let start = layout.return_path_len.saturating_add(span.offset);
        pieces::read_range(connection, &layout, start..start.saturating_add(span.length))
    })?;
    Ok(text.joined())
}

fn extract(connection: &Connection, settings: &MessageStoreSettings) -> Result<Vec<Extracted>, MessageStoreError> {
    let sql = "SELECT message_id FROM drop_unindexed WHERE too_long = 0 ORDER BY message_id LIMIT ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let waiting = statement.query_map(params![settings.index_batch], |row| row.get(0))?;
    let mut extracted = Vec::new();
    let mut bytes = 0;
    for content in waiting {
        let content = content?;
        let text = match kept_or_read(connection, content) {
            // One damaged message must not keep the rest from being indexed.
            Err(error @ (MessageStoreError::NoSuchMessage | MessageStoreError::Store(StoreError::Unexpected(_)))) => {
                tracing::error!(message = content.0, %error, "message could not be read for the search index");
                String::new()
            }
            text => text?,
        };
        bytes += text.len();
        extracted.push(Extracted { content, text });
        if bytes >= settings.index_batch_bytes {
            break;
        }
    }
    Ok(extracted)
}

/// Returns the stored text if the message was indexed before, otherwise the extracted text.
fn kept_or_read(connection: &Connection, content: ContentId) -> Result<String, MessageStoreError> {
    let sql = "SELECT text FROM drop_texts WHERE message_id = ?1";
    match connection.prepare_cached(sql)?.query_row(params![content], |row| row.get(0)).optional()? {
        Some(kept) => Ok(kept),
        None => text_of(connection, content),
    }
}

fn put(connection: &Connection, extracted: &Extracted, max_indexed: usize) -> Result<(), MessageStoreError> {
    let Extracted { content, text } = extracted;
    // Meanwhile the message may have been removed, or indexed by another process.
    let sql = "SELECT 1 FROM drop_unindexed WHERE message_id = ?1 AND too_long = 0";
    if connection.prepare_cached(sql)?.query_row(params![content], |_| Ok(())).optional()?.is_none() {
        return Ok(());
    }
    // The text may exist already. REPLACE would start a savepoint, and the index would flush at each one:
    // every message would become its own segment, with twice the merging.
    let sql = "INSERT OR IGNORE INTO drop_texts (message_id, text) VALUES (?1, ?2)";
    connection.prepare_cached(sql)?.execute(params![content, text])?;
    if text.len() > max_indexed {
        let sql = "UPDATE drop_unindexed SET too_long = 1 WHERE message_id = ?1";
        connection.prepare_cached(sql)?.execute(params![content])?;
        return Ok(());
    }
    let sql = "INSERT INTO drop_fts (rowid, owners, words) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![content, owners(connection, *content)?, comparable(text)])?;
    connection.prepare_cached("DELETE FROM drop_unindexed WHERE message_id = ?1")?.execute(params![content])?;
    Ok(())
}

/// Returns the mailboxes that contain the message. Copies and moves stay within a mailbox, so this set never
/// grows.
fn owners(connection: &Connection, content: ContentId) -> Result<String, MessageStoreError> {
    let sql = "SELECT DISTINCT f.mailbox_id FROM drop_entries e JOIN drop_folders f ON f.id = e.folder_id
        WHERE e.message_id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let owners = statement.query_map(params![content], |row| row.get(0))?;
    let mut column = String::new();
    for owner in owners {
        column.push_str(&owner_word(owner?));
    }
    Ok(column)
}

/// Returns a mailbox as a word of the column `owners`. No such word is part of another.
pub(crate) fn owner_word(mailbox: MailboxId) -> String {
    format!("<{}>", mailbox.0)
}
