//! Opens a message and reads only the bytes that are shown.

use std::ops::Range;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use mailapi_backend::mime::{AttachmentPart, PartSpan, TransferDecoder, TransferEncoding};
use mailapi_backend::{AttachmentInfo, FullMessage, MessageSummary, OpenedAttachment, OpenedMessage};
use mailapi_model::{EmailAddress, FolderName, Timestamp};
use rusqlite::{Connection, Row, params};

use super::flag_bits::from_columns;
use super::{Layout, MessageStore, MessageStoreError, content, damaged, entry, folder, mailbox, pieces};

/// The name of a message in a request.
struct Named<'a> {
    mailbox: &'a EmailAddress,
    folder: &'a FolderName,
    uid: u32,
}

impl Named<'_> {
    /// Reads the message's row: [`content::STORED_COLUMNS`], then the columns of its entry.
    fn look_up<T>(
        &self,
        connection: &Connection,
        read: impl FnOnce(&Row<'_>) -> Result<T, MessageStoreError>,
    ) -> Result<T, MessageStoreError> {
        // CROSS JOIN fixes the order: from the mailbox to its message, each by its key.
        let sql = format!(
            "SELECT {}, m.date, e.flags, e.keywords, e.delivered_to, e.recipient FROM drop_mailboxes b
                CROSS JOIN drop_folders f ON f.mailbox_id = b.id
                CROSS JOIN drop_entries e ON e.folder_id = f.id
                CROSS JOIN drop_messages m ON m.id = e.message_id
            WHERE b.address = ?1 AND f.name = ?2 AND e.uid = ?3",
            content::STORED_COLUMNS
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params![self.mailbox.as_str(), self.folder.as_str(), self.uid])?;
        match rows.next()? {
            Some(row) => read(row),
            None => Err(self.missing(connection)?),
        }
    }

    /// Returns which one is missing: the mailbox, its folder, or the message.
    fn missing(&self, connection: &Connection) -> Result<MessageStoreError, MessageStoreError> {
        let mailbox = mailbox::expect(connection, self.mailbox)?;
        folder::expect(connection, mailbox.id, self.folder)?;
        Ok(MessageStoreError::NoSuchMessage)
    }
}

/// Limit in bytes for long messages opened at once. Decoding takes at least twice the memory.
pub(super) const OPENED_AT_ONCE: u32 = 32 * 1024 * 1024;

/// Bytes to read for a message that is too long to open at once.
struct Long(u64);

/// Returns a decoded message, unless it needs more than `most` bytes.
fn full_message(
    connection: &Connection,
    named: &Named<'_>,
    most: u64,
) -> Result<Result<FullMessage, Long>, MessageStoreError> {
    named.look_up(connection, |row| {
        let layout = read_layout(row)?;
        let structure = content::read_structure(connection, row)?;
        let header = 0..range(&layout, &structure.header()).end;
        let bodies = structure.bodies.iter().map(|body| range(&layout, &body.span));
        let parts: Vec<_> = std::iter::once(header).chain(bodies).collect();
        let bytes = parts.iter().map(|part| part.end - part.start).sum();
        if bytes > most {
            return Ok(Err(Long(bytes)));
        }
        let mut pieces = pieces::read_ranges(connection, &layout, parts)?;
        let bodies = pieces.split_off(1);
        let header = pieces.pop().unwrap_or_default();
        let flags = from_columns(row.get(6)?, row.get_ref(7)?.as_str().map_err(|_| damaged("a keyword"))?);
        let (flags, date) = (flags.words().map(str::to_owned).collect(), Timestamp::from_millis(row.get(5)?));
        let recipient = entry::recipient(row.get(8)?, row.get(9)?);
        let summary = MessageSummary { recipient, ..structure.summary(named.uid, layout.size, flags, date) };
        Ok(Ok(structure.full_message(summary, &header, &bodies)))
    })
}

/// Reads the layout with the `Delivered-To` line.
fn read_layout(row: &Row<'_>) -> Result<Layout, MessageStoreError> {
    let delivered_to = row.get_ref(8)?.as_str_or_null().map_err(|_| damaged("a recipient"))?;
    Ok(content::read_layout(row)?.delivered_to(delivered_to))
}

/// Returns the range of a part in the stored bytes.
fn range(layout: &Layout, span: &PartSpan) -> Range<u64> {
    let start = layout.return_path_len.saturating_add(span.offset);
    start..start.saturating_add(span.length)
}

/// A located attachment.
enum Found {
    /// A short attachment, decoded.
    Short(AttachmentInfo, Vec<u8>),
    /// Location of a long attachment.
    Long(Layout, AttachmentPart),
}

/// Extra capacity that base64 needs for its last quantum before the padding is known. Without it, all decoded
/// bytes would be copied into a buffer of twice the size.
const LAST_QUANTUM: usize = 3;

/// Returns an attachment: decoded if it needs at most `most` bytes, otherwise its location.
fn attachment(connection: &Connection, named: &Named<'_>, index: u32, most: u64) -> Result<Found, MessageStoreError> {
    let (layout, part) = named.look_up(connection, |row| {
        let attachments = content::read_structure(connection, row)?.attachments;
        let part = attachments.into_iter().nth(index as usize).ok_or(MessageStoreError::NoSuchAttachment)?;
        Ok((read_layout(row)?, part))
    })?;
    if part.span.length > most {
        return Ok(Found::Long(layout, part));
    }
    let (mut decoder, length) = (part.span.decoder(), part.info.size.min(part.span.length));
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default().saturating_add(LAST_QUANTUM));
    pieces::visit(connection, &layout, range(&layout, &part.span), |step| decoder.push(step, &mut bytes))?;
    decoder.finish(&mut bytes);
    Ok(Found::Short(part.info, bytes))
}

impl MessageStore {
    /// Returns a decoded message.
    pub(crate) async fn full_message(
        &self,
        address: &EmailAddress,
        name: &FolderName,
        uid: u32,
    ) -> Result<FullMessage, MessageStoreError> {
        let most = self.settings().inline_bytes as u64;
        let named = Named { mailbox: address, folder: name, uid };
        // A short message is read at once; only a long one needs permits and a blocking thread.
        let bytes = match self.read(|connection| full_message(connection, &named, most)).await? {
            Ok(message) => return Ok(message),
            Err(Long(bytes)) => bytes,
        };
        let bytes = u32::try_from(bytes).map_or(OPENED_AT_ONCE, |bytes| bytes.min(OPENED_AT_ONCE));
        // The semaphore is never closed. A client cannot hold its permits, since opening waits for the disk
        // only.
        let _permit = self.opening().acquire_many(bytes).await.ok();
        let (address, name) = (address.clone(), name.clone());
        let long = self.scan(move |connection| {
            full_message(connection, &Named { mailbox: &address, folder: &name, uid }, u64::MAX)
        });
        long.await?.map_err(|Long(_)| damaged("the length of a message").into())
    }

    /// Returns a decoded attachment: a short one as a whole, a long one as a stream.
    pub(crate) async fn attachment(
        &self,
        address: &EmailAddress,
        name: &FolderName,
        uid: u32,
        index: u32,
    ) -> Result<OpenedAttachment, MessageStoreError> {
        let most = self.settings().inline_bytes as u64;
        let named = Named { mailbox: address, folder: name, uid };
        match self.read(|connection| attachment(connection, &named, index, most)).await? {
            Found::Short(info, bytes) => {
                let content = stream::iter((!bytes.is_empty()).then(|| Ok(Bytes::from(bytes))));
                Ok(OpenedAttachment { info, content: content.boxed() })
            }
            Found::Long(layout, part) => {
                let content = self.decoded(layout, &part.span).map(|piece| piece.map_err(Into::into));
                Ok(OpenedAttachment { info: part.info, content: content.boxed() })
            }
        }
    }

    /// Streams a message as stored.
    pub(crate) async fn raw(
        &self,
        address: &EmailAddress,
        name: &FolderName,
        uid: u32,
    ) -> Result<OpenedMessage, MessageStoreError> {
        let named = Named { mailbox: address, folder: name, uid };
        let layout = self.read(|connection| named.look_up(connection, read_layout)).await?;
        let (size, whole) = (layout.size, layout.whole());
        let content = self.stream_range(layout, whole).map(|piece| piece.map_err(Into::into));
        Ok(OpenedMessage { size, content: content.boxed() })
    }

    /// Streams a decoded part of a message.
    fn decoded(
        &self,
        layout: Layout,
        span: &PartSpan,
    ) -> impl Stream<Item = Result<Bytes, MessageStoreError>> + Send + use<> {
        let range = range(&layout, span);
        self.decoded_range(layout, range, span.encoding)
    }

    /// Streams a range of the stored bytes, decoded.
    pub(crate) fn decoded_range(
        &self,
        layout: Layout,
        Range { start, end }: Range<u64>,
        encoding: TransferEncoding,
    ) -> impl Stream<Item = Result<Bytes, MessageStoreError>> + Send + use<> {
        let (end, decoder) = (end.min(layout.size), Some(TransferDecoder::new(encoding)));
        let pieces = stream::try_unfold(
            (self.clone(), layout, start, decoder),
            move |(message_store, layout, at, decoder)| async move {
                let Some(mut decoder) = decoder else { return Ok(None) };
                let (mut bytes, next) = (Vec::new(), layout.end_of_piece(at).min(end));
                if at >= end {
                    decoder.finish(&mut bytes);
                    return Ok(Some((Bytes::from(bytes), (message_store, layout, at, None))));
                }
                bytes.reserve(usize::try_from(next - at).unwrap_or_default());
                let read = |connection: &Connection| {
                    pieces::visit(connection, &layout, at..next, |step| decoder.push(step, &mut bytes))
                };
                message_store.read(read).await?;
                Ok::<_, MessageStoreError>(Some((Bytes::from(bytes), (message_store, layout, next, Some(decoder)))))
            },
        );
        // A chunk may decode to nothing.
        pieces.filter(|piece| std::future::ready(!matches!(piece, Ok(bytes) if bytes.is_empty())))
    }
}
