//! Rows of messages and their bytes; each message is stored once.

use std::io;
use std::ops::Range;

use bytes::Bytes;
use mailapi_backend::mime::{MessageStructure, recipient_of};
use mailapi_model::{Blob, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::id::ContentId;
use super::{EntryRecipient, MessageStoreError, people, pieces};
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
    /// The address that an appended message was sent to, according to its header.
    recipient: Option<String>,
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
        let is_appended = return_path.is_empty();
        let (structure, recipient) = match message.in_memory() {
            Some(bytes) if bytes.len() <= settings.inline_bytes => read(&message, is_appended).map_err(unreadable)?,
            _ => {
                let message = message.clone();
                let parsing = tokio::task::spawn_blocking(move || read(&message, is_appended));
                parsing.await.map_err(|_| StoreError::Panicked)?.map_err(unreadable)?
            }
        };
        Ok(Self { return_path, message, structure, received_at, recipient })
    }

    /// Returns the message without our lines.
    pub(crate) const fn message(&self) -> &Blob {
        &self.message
    }

    /// Returns the address that an appended message was sent to, for its entry.
    pub(crate) fn written_recipient(&self) -> EntryRecipient<'_> {
        EntryRecipient::Written(self.recipient.as_deref())
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

/// Parses a message. Reads the recipient only of one that was not delivered here. May block.
fn read(message: &Blob, is_appended: bool) -> io::Result<(MessageStructure, Option<String>)> {
    let structure = MessageStructure::of_bytes(message)?;
    if !is_appended {
        return Ok((structure, None));
    }
    let length = usize::try_from(structure.header().length).unwrap_or(usize::MAX).min(message.len());
    let recipient = recipient_of(&message.slice(0..length).to_bytes()?);
    Ok((structure, recipient.map(|recipient| recipient.as_str().to_owned())))
}

/// Location of a stored message's bytes, and the line that is shown among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The stored message.
    pub content: ContentId,
    /// Total size in bytes.
    pub size: u64,
    /// Length of our lines at the beginning, `Delivered-To` and `Return-Path`, which are removed for relaying.
    pub return_path_len: u64,
    /// Size of each chunk but the last.
    pub(crate) chunk_len: u64,
    /// The `Delivered-To` line of an entry behind its `Return-Path` line. It is not among the stored bytes; empty without
    /// one.
    delivered_to: Box<str>,
}

impl Layout {
    /// Returns the range of the whole message.
    #[must_use]
    pub fn whole(&self) -> Range<u64> {
        0..self.size
    }

    /// Returns the layout of a delivered entry, with its `Delivered-To` line.
    pub(crate) fn delivered_to(self, recipient: Option<&str>) -> Self {
        let Some(recipient) = recipient else { return self };
        let line = delivered_to(recipient).into_boxed_str();
        let length = line.len() as u64;
        Self { size: self.size + length, return_path_len: self.return_path_len + length, delivered_to: line, ..self }
    }

    /// Returns the line that is not among the stored bytes.
    pub(crate) fn added_line(&self) -> AddedLine<'_> {
        let line = self.delivered_to.as_bytes();
        AddedLine { line, place: self.return_path_len.saturating_sub(line.len() as u64) }
    }

    /// Returns the number of stored bytes.
    pub(crate) fn stored_size(&self) -> u64 {
        self.size.saturating_sub(self.delivered_to.len() as u64)
    }

    /// Returns the end of the chunk that contains an byte. The added line belongs to the first one.
    pub(crate) fn end_of_piece(&self, byte: u64) -> u64 {
        let before = self.delivered_to.len() as u64;
        let chunk = byte.saturating_sub(before) / self.chunk_len;
        (chunk + 1).saturating_mul(self.chunk_len).saturating_add(before)
    }

    /// Returns the range of the message as received, without our `Return-Path` line.
    #[must_use]
    pub fn as_submitted(&self) -> Range<u64> {
        self.return_path_len..self.size
    }
}

/// A line that is shown among the stored bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddedLine<'a> {
    line: &'a [u8],
    /// Number of stored bytes before it.
    pub(crate) place: u64,
}

impl<'a> AddedLine<'a> {
    /// Returns the part of the line in a range of the message.
    pub(crate) fn part_in(&self, range: &Range<u64>) -> &'a [u8] {
        let within =
            |at: u64| usize::try_from(at.saturating_sub(self.place)).unwrap_or(usize::MAX).min(self.line.len());
        self.line.get(within(range.start)..within(range.end)).unwrap_or_default()
    }

    /// Returns the range of the stored bytes in a range of the message.
    pub(crate) fn without(&self, range: &Range<u64>) -> Range<u64> {
        let stored = |at: u64| at.saturating_sub(self.line.len() as u64).max(at.min(self.place));
        stored(range.start)..stored(range.end)
    }
}

/// Returns the `Delivered-To` line of a delivery (RFC 9228). It follows the `Return-Path` line, which must be the first
/// one (RFC 5321 section 4.4), and is above all that other servers wrote.
pub(crate) fn delivered_to(recipient: &str) -> String {
    format!("Delivered-To: {recipient}\r\n")
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
    Ok(Layout {
        content: row.get(0)?,
        size: row.get(1)?,
        return_path_len: row.get(2)?,
        chunk_len: row.get(3)?,
        delivered_to: Box::default(),
    })
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
