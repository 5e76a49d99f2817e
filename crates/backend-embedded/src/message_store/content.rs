//! Rows of messages and their bytes; each message is stored once.

use std::io;
use std::ops::Range;

use bytes::Bytes;
use mailapi_backend::mime::MessageStructure;
use mailapi_model::{Blob, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::id::ContentId;
use super::{MessageStoreError, people, pieces};
use crate::MessageStoreSettings;

/// Number of chunk keys per message; `drop_chunks.key` is message * this + chunk.
const PIECES: u64 = 1 << 16;

/// A parsed message before it is stored.
#[derive(Debug, Clone)]
pub(crate) struct NewContent {
    /// The `Return-Path` line of a final delivery, otherwise empty.
    return_path: String,
    message: Blob,
    structure: MessageStructure,
    received_at: Timestamp,
}

impl NewContent {
    /// Parses a delivered message. A `Return-Path` line is stored before it (RFC 5321 section 4.4), and
    /// removed when the message is relayed.
    pub(crate) async fn delivered(
        sender: &str,
        message: Blob,
        received_at: Timestamp,
        settings: &MessageStoreSettings,
    ) -> Result<Self, StoreError> {
        let return_path = format!("Return-Path: <{sender}>\r\n");
        Self::parse(return_path, message, received_at, settings).await
    }

    /// Parses a message that a client appends to a folder; it is stored unchanged.
    pub(crate) async fn appended(
        message: Blob,
        received_at: Timestamp,
        settings: &MessageStoreSettings,
    ) -> Result<Self, StoreError> {
        Self::parse(String::new(), message, received_at, settings).await
    }

    async fn parse(
        return_path: String,
        message: Blob,
        received_at: Timestamp,
        settings: &MessageStoreSettings,
    ) -> Result<Self, StoreError> {
        let structure = match message.in_memory() {
            Some(bytes) if bytes.len() <= settings.inline_bytes => MessageStructure::of(bytes),
            _ => {
                let message = message.clone();
                let parsing = tokio::task::spawn_blocking(move || MessageStructure::of_bytes(&message));
                parsing.await.map_err(|_| StoreError::Panicked)?.map_err(unreadable)?
            }
        };
        Ok(Self { return_path, message, structure, received_at })
    }

    /// Returns the stored size in bytes.
    pub(crate) fn size(&self) -> u64 {
        (self.return_path.len() + self.message.len()) as u64
    }

    /// Returns the parsed structure.
    pub(crate) const fn structure(&self) -> &MessageStructure {
        &self.structure
    }

    /// Returns the time of receipt.
    pub(crate) fn received_at(&self) -> Timestamp {
        self.received_at
    }

    /// Returns the stored message in pieces. Only the first one, which starts with the `Return-Path` line, is
    /// copied.
    fn pieces(&self, length: usize) -> impl Iterator<Item = io::Result<Bytes>> {
        let taken = length.saturating_sub(self.return_path.len()).min(self.message.len());
        let first = self.message.slice(0..taken).to_bytes();
        let first = first.map(|bytes| Bytes::from([self.return_path.as_bytes(), &bytes].concat()));
        std::iter::once(first).chain(self.message.slice(taken..self.message.len()).pieces(length))
    }
}

/// Location of a stored message's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The stored message.
    pub content: ContentId,
    /// Total size in bytes.
    pub size: u64,
    /// Length of our `Return-Path` line at the beginning, which is removed for relaying.
    pub return_path_len: u64,
    /// Size of each chunk but the last.
    pub(crate) chunk_len: u64,
}

impl Layout {
    /// Returns the range of the whole message.
    #[must_use]
    pub fn whole(&self) -> Range<u64> {
        0..self.size
    }

    /// Returns the end of the chunk that contains an byte.
    pub(crate) fn end_of_piece(&self, byte: u64) -> u64 {
        (byte / self.chunk_len + 1).saturating_mul(self.chunk_len)
    }

    /// Returns the range of the message as received, without our `Return-Path` line.
    #[must_use]
    pub fn as_submitted(&self) -> Range<u64> {
        self.return_path_len..self.size
    }
}

/// Stores a message without references.
pub(crate) fn insert(
    connection: &Connection,
    new: &NewContent,
    settings: &MessageStoreSettings,
) -> Result<ContentId, MessageStoreError> {
    // Larger chunks only for a message that would otherwise need too many. The first chunk contains the whole
    // `Return-Path` line.
    let chunk_len = (settings.chunk_bytes.max(new.return_path.len()) as u64).max(new.size().div_ceil(PIECES)).max(1);
    let content = insert_row(connection, new, chunk_len)?;
    let mut statement = connection.prepare_cached("INSERT INTO drop_chunks (key, octets) VALUES (?1, ?2)")?;
    let length = usize::try_from(chunk_len).unwrap_or(usize::MAX);
    for (piece, bytes) in new.pieces(length).enumerate() {
        statement.execute(params![key(content, piece as u64), &bytes.map_err(unreadable)?[..]])?;
    }
    Ok(content)
}

/// Returns the error for a buffered message whose file cannot be read.
#[expect(clippy::needless_pass_by_value, reason = "map_err passes the error by value")]
pub(crate) fn unreadable(error: io::Error) -> StoreError {
    StoreError::Unavailable(format!("cannot read the buffered message: {error}"))
}

fn insert_row(connection: &Connection, new: &NewContent, chunk_len: u64) -> Result<ContentId, StoreError> {
    let sql = "INSERT INTO drop_messages (size, return_path_len, chunk_len, received_at, date, attachments, message_id,
            from_name, from_email, subject, to_list, digest)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) RETURNING id";
    let structure = &new.structure;
    let values = params![
        new.size(),
        new.return_path.len(),
        chunk_len,
        new.received_at.as_millis(),
        structure.date.unwrap_or(new.received_at).as_millis(),
        structure.attachments.len(),
        structure.message_id,
        structure.from.name,
        structure.from.email,
        structure.subject,
        people::to_column(&structure.to),
        structure.to_bytes(),
    ];
    Ok(connection.prepare_cached(sql)?.query_row(values, |row| row.get(0))?)
}

/// The columns that [`read_layout`] and [`read_structure`] read, of the message `m`.
pub(crate) const STORED_COLUMNS: &str = "m.id, m.size, m.return_path_len, m.chunk_len, m.digest";

/// Reads the layout from a row that starts with [`STORED_COLUMNS`].
pub(crate) fn read_layout(row: &Row<'_>) -> rusqlite::Result<Layout> {
    Ok(Layout { content: row.get(0)?, size: row.get(1)?, return_path_len: row.get(2)?, chunk_len: row.get(3)? })
}

/// Reads the structure from such a row. Its offsets count from the end of our `Return-Path` line.
pub(crate) fn read_structure(connection: &Connection, row: &Row<'_>) -> Result<MessageStructure, MessageStoreError> {
    // A structure written by an older version is parsed again.
    MessageStructure::from_bytes(row.get_ref(4)?.as_blob_or_null().ok().flatten().unwrap_or_default()).or_else(|_| {
        let layout = read_layout(row)?;
        Ok(MessageStructure::of(&pieces::read_range(connection, &layout, layout.as_submitted())?))
    })
}

pub(crate) fn layout(connection: &Connection, content: ContentId) -> Result<Layout, MessageStoreError> {
    let sql = "SELECT id, size, return_path_len, chunk_len FROM drop_messages WHERE id = ?1";
    let found = connection.prepare_cached(sql)?.query_row(params![content], read_layout).optional()?;
    found.ok_or(MessageStoreError::NoSuchMessage)
}

/// Returns the structure of a stored message.
pub(crate) fn structure(connection: &Connection, content: ContentId) -> Result<MessageStructure, MessageStoreError> {
    let sql = format!("SELECT {STORED_COLUMNS} FROM drop_messages m WHERE m.id = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![content])?;
    read_structure(connection, rows.next()?.ok_or(MessageStoreError::NoSuchMessage)?)
}

/// Removes the bytes and texts of an unreferenced message.
pub(crate) fn remove(connection: &Connection, content: ContentId) -> Result<(), StoreError> {
    let first = key(content, 0);
    let sql = "DELETE FROM drop_chunks WHERE key >= ?1 AND key < ?2";
    connection.prepare_cached(sql)?.execute(params![first, key(ContentId(content.0 + 1), 0)])?;
    for sql in [
        "DELETE FROM drop_fts WHERE rowid = ?1",
        "DELETE FROM drop_unindexed WHERE message_id = ?1",
        "DELETE FROM drop_texts WHERE message_id = ?1",
        "DELETE FROM drop_messages WHERE id = ?1",
    ] {
        connection.prepare_cached(sql)?.execute(params![content])?;
    }
    Ok(())
}

/// Returns the key of a chunk.
pub(super) fn key(content: ContentId, piece: u64) -> i64 {
    content.0 * PIECES as i64 + piece as i64
}
