//! Updates the header lines of texts stored by an earlier version, in small steps.

use mailapi_backend::mime::SearchableText;
use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, params};

use super::id::ContentId;
use super::{MessageStore, MessageStoreError, content, pieces};
use crate::MessageStoreSettings;

/// Number of texts that one step compares with their headers. Most of them need no change.
const TEXTS: usize = 512;

/// Result of one step.
struct Reread {
    /// The last compared message.
    through: ContentId,
    texts: usize,
    /// The changed texts.
    changed: Vec<(ContentId, String)>,
}

impl MessageStore {
    /// Compares some stored texts with the headers of their messages. Returns their number; zero means that
    /// none is left.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn reread_once(&self) -> Result<usize, MessageStoreError> {
        // Usually no text is left, and this read needs no blocking thread.
        if self.read(rest).await?.is_none() {
            return Ok(0);
        }
        let settings = self.settings().clone();
        let reread = self.scan(move |connection| compare(connection, &settings)).await?;
        let texts = reread.as_ref().map_or(0, |reread| reread.texts);
        self.write(move |connection, _| put(connection, reread)).await?;
        Ok(texts)
    }
}

/// Returns the remaining messages: above the first number, up to the second.
fn rest(connection: &Connection) -> Result<Option<(i64, i64)>, MessageStoreError> {
    let sql = "SELECT next, last FROM drop_reread";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

/// Compares one step of texts; `None` if no message is left.
fn compare(connection: &Connection, settings: &MessageStoreSettings) -> Result<Option<Reread>, MessageStoreError> {
    let Some((next, last)) = rest(connection)? else { return Ok(None) };
    let sql = "SELECT message_id, text FROM drop_texts WHERE message_id > ?1 AND message_id <= ?2
        ORDER BY message_id LIMIT ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![next, last, TEXTS])?;
    let (mut found, mut bytes) = (None, 0);
    while let Some(row) = rows.next()? {
        let through: ContentId = row.get(0)?;
        let reread = found.get_or_insert_with(|| Reread { through, texts: 0, changed: Vec::new() });
        (reread.through, reread.texts) = (through, reread.texts + 1);
        let text = row.get_ref(1)?.as_str().unwrap_or_default();
        bytes += text.len();
        match header_lines(connection, through) {
            Ok(lines) if text.starts_with(&lines) => {}
            Ok(lines) => {
                let body = text.rsplit('\n').next().unwrap_or_default();
                reread.changed.push((through, lines + body));
            }
            // One damaged message must not keep the rest from being compared.
            Err(error @ (MessageStoreError::NoSuchMessage | MessageStoreError::Store(StoreError::Unexpected(_)))) => {
                tracing::error!(message = through.0, %error, "message could not be read for the search index");
            }
            Err(error) => return Err(error),
        }
        if bytes >= settings.index_batch_bytes || reread.changed.len() >= settings.index_batch {
            break;
        }
    }
    Ok(found)
}

fn header_lines(connection: &Connection, content: ContentId) -> Result<String, MessageStoreError> {
    let layout = content::layout(connection, content)?;
    let span = content::structure(connection, content)?.header();
    let start = layout.return_path_len.saturating_add(span.offset);
    let header = pieces::read_range(connection, &layout, start..start.saturating_add(span.length))?;
    Ok(SearchableText::of_header(&header).joined())
}

fn put(connection: &Connection, reread: Option<Reread>) -> Result<(), MessageStoreError> {
    let Some(Reread { through, changed, .. }) = reread else {
        connection.prepare_cached("DELETE FROM drop_reread")?.execute([])?;
        return Ok(());
    };
    for (content, text) in changed {
        // Meanwhile the message may have been removed.
        let sql = "UPDATE drop_texts SET text = ?2 WHERE message_id = ?1";
        if connection.prepare_cached(sql)?.execute(params![content, text])? == 0 {
            continue;
        }
        // Until it is indexed again, a search reads the text.
        for sql in
            ["DELETE FROM drop_fts WHERE rowid = ?1", "INSERT OR IGNORE INTO drop_unindexed (message_id) VALUES (?1)"]
        {
            connection.prepare_cached(sql)?.execute(params![content])?;
        }
    }
    connection.prepare_cached("UPDATE drop_reread SET next = ?1")?.execute(params![through])?;
    Ok(())
}
