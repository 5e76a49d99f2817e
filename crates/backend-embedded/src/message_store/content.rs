//! Rows of messages and their octets, each message once.

use std::io;
use std::ops::Range;

use bytes::Bytes;
use mailapi_backend::mime::MessageStructure;
use mailapi_model::{Octets, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::id::ContentId;
use super::{MessageStoreError, people, pieces};
use crate::MessageStoreSettings;

/// Keys of pieces that one message may use; `drop_chunks.key` is message * this + piece.
const PIECES: u64 = 1 << 16;

/// A parsed message, ready to be stored.
#[derive(Debug, Clone)]
pub(crate) struct NewContent {
    /// The `Return-Path` line of a final delivery, or nothing.
    return_path: String,
    message: Octets,
    structure: MessageStructure,
    received_at: Timestamp,
}

impl NewContent {
    /// Parses a message that is delivered: a `Return-Path` line goes before it (RFC 5321 section 4.4), which a relay
    /// leaves out again.
    pub(crate) async fn delivered(
        sender: &str,
        message: Octets,
        received_at: Timestamp,
        settings: &MessageStoreSettings,
    ) -> Result<Self, StoreError> {
        let return_path = format!("Return-Path: <{sender}>\r\n");
        Self::parse(return_path, message, received_at, settings).await
    }

    /// Parses a message that a client puts into a folder: it stays as it is.
    pub(crate) async fn appended(
        message: Octets,
        received_at: Timestamp,
        settings: &MessageStoreSettings,
    ) -> Result<Self, StoreError> {
        Self::parse(String::new(), message, received_at, settings).await
    }

    async fn parse(
        return_path: String,
        message: Octets,
        received_at: Timestamp,
        settings: &MessageStoreSettings,
    ) -> Result<Self, StoreError> {
        let structure = match message.in_memory() {
            Some(octets) if octets.len() <= settings.inline_bytes => MessageStructure::of(octets),
            _ => {
                let message = message.clone();
                let parsing = tokio::task::spawn_blocking(move || MessageStructure::of_octets(&message));
                parsing.await.map_err(|_| StoreError::Panicked)?.map_err(unreadable)?
            }
        };
        Ok(Self { return_path, message, structure, received_at })
    }

    /// Octets as stored.
    pub(crate) fn size(&self) -> u64 {
        (self.return_path.len() + self.message.len()) as u64
    }

    /// The message taken apart.
    pub(crate) const fn structure(&self) -> &MessageStructure {
        &self.structure
    }

    /// When it came.
    pub(crate) fn received_at(&self) -> Timestamp {
        self.received_at
    }

    /// Piece by piece as stored; only the first one, which the `Return-Path` line begins, is copied.
    fn pieces(&self, length: usize) -> impl Iterator<Item = io::Result<Bytes>> {
        let taken = length.saturating_sub(self.return_path.len()).min(self.message.len());
        let first = self.message.slice(0..taken).to_bytes();
        let first = first.map(|octets| Bytes::from([self.return_path.as_bytes(), &octets].concat()));
        std::iter::once(first).chain(self.message.slice(taken..self.message.len()).pieces(length))
    }
}

/// Where the octets of a stored message lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Which.
    pub content: ContentId,
    /// Octets of the whole.
    pub size: u64,
    /// How many of them, at the beginning, are our `Return-Path` line: what a relay leaves out.
    pub return_path_len: u64,
    /// Octets of each piece but the last.
    pub(crate) chunk_len: u64,
}

impl Layout {
    /// The whole message.
    #[must_use]
    pub fn whole(&self) -> Range<u64> {
        0..self.size
    }

    /// Where the piece that holds an octet ends.
    pub(crate) fn end_of_piece(&self, octet: u64) -> u64 {
        (octet / self.chunk_len + 1).saturating_mul(self.chunk_len)
    }

    /// The message as it was handed over, without our `Return-Path` line.
    #[must_use]
    pub fn as_submitted(&self) -> Range<u64> {
        self.return_path_len..self.size
    }
}

/// Stores a message that nothing refers to yet.
pub(crate) fn insert(
    connection: &Connection,
    new: &NewContent,
    settings: &MessageStoreSettings,
) -> Result<ContentId, MessageStoreError> {
    // Longer pieces only for a message that would otherwise have too many of them; the first holds the line whole.
    let chunk_len = (settings.chunk_bytes.max(new.return_path.len()) as u64).max(new.size().div_ceil(PIECES)).max(1);
    let content = insert_row(connection, new, chunk_len)?;
    let mut statement = connection.prepare_cached("INSERT INTO drop_chunks (key, octets) VALUES (?1, ?2)")?;
    let length = usize::try_from(chunk_len).unwrap_or(usize::MAX);
    for (piece, octets) in new.pieces(length).enumerate() {
        statement.execute(params![key(content, piece as u64), &octets.map_err(unreadable)?[..]])?;
    }
    Ok(content)
}

/// A message on its way that lies in a file which cannot be read.
#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
pub(crate) fn unreadable(error: io::Error) -> StoreError {
    StoreError::Unavailable(format!("a message on its way cannot be read: {error}"))
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

/// What [`read_layout`] and [`read_structure`] read, of the message `m`.
pub(crate) const STORED_COLUMNS: &str = "m.id, m.size, m.return_path_len, m.chunk_len, m.digest";

/// The layout in a row that begins with [`STORED_COLUMNS`].
pub(crate) fn read_layout(row: &Row<'_>) -> rusqlite::Result<Layout> {
    Ok(Layout { content: row.get(0)?, size: row.get(1)?, return_path_len: row.get(2)?, chunk_len: row.get(3)? })
}

/// The digest in such a row. Its offsets count from the end of our `Return-Path` line.
pub(crate) fn read_structure(connection: &Connection, row: &Row<'_>) -> Result<MessageStructure, MessageStoreError> {
    // A digest that an older program wrote is made again.
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

/// What is kept of the parsed message.
pub(crate) fn structure(connection: &Connection, content: ContentId) -> Result<MessageStructure, MessageStoreError> {
    let sql = format!("SELECT {STORED_COLUMNS} FROM drop_messages m WHERE m.id = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![content])?;
    read_structure(connection, rows.next()?.ok_or(MessageStoreError::NoSuchMessage)?)
}

/// Removes octets and texts of a message that nothing refers to any more.
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

/// The row of a piece.
pub(super) fn key(content: ContentId, piece: u64) -> i64 {
    content.0 * PIECES as i64 + piece as i64
}
