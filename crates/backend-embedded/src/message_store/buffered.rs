//! Messages that leave the store: a long one is buffered in a file instead of memory, since sending may take long.

use std::ops::Range;

use bytes::Bytes;
use mailapi_backend::{Buffer, BufferError};
use mailapi_model::Blob;
use mailapi_store::StoreError;
use rusqlite::Connection;

use super::{Layout, MessageStore, MessageStoreError, pieces};

impl MessageStore {
    /// Returns a range of a message's bytes, up to the end of the message.
    pub(crate) async fn buffer_range(&self, layout: Layout, range: Range<u64>) -> Result<Blob, MessageStoreError> {
        let length = range.end.min(layout.size).saturating_sub(range.start);
        if length <= self.settings().inline_bytes as u64 {
            return Ok(self.load_from(layout, range).await?.into());
        }
        let buffer = self.buffer().clone();
        self.scan(move |connection| copy(connection, &layout, range, &buffer)).await
    }
}

/// Loads a range into memory if it has at most `inline_bytes`, otherwise into a file.
pub(super) fn load(
    connection: &Connection,
    layout: &Layout,
    range: Range<u64>,
    (buffer, inline_bytes): (&Buffer, usize),
) -> Result<Blob, MessageStoreError> {
    if range.end.min(layout.size).saturating_sub(range.start) > inline_bytes as u64 {
        return copy(connection, layout, range, buffer);
    }
    Ok(Bytes::from(pieces::read_range(connection, layout, range)?).into())
}

fn copy(
    connection: &Connection,
    layout: &Layout,
    range: Range<u64>,
    buffer: &Buffer,
) -> Result<Blob, MessageStoreError> {
    let (mut writer, mut written) = (buffer.writer(), Ok(()));
    pieces::visit(connection, layout, range, |bytes| {
        if written.is_ok() {
            written = writer.write(bytes);
        }
    })?;
    written.and_then(|()| writer.finish()).map_err(|error| no_room(&error).into())
}

fn no_room(error: &BufferError) -> StoreError {
    StoreError::Unavailable(error.to_string())
}
