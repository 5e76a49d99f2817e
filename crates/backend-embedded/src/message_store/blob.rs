//! Reads bytes: short ranges as a whole, long ones as a stream.

use std::ops::Range;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;
use mailapi_backend::mime::MessageStructure;
use rusqlite::Connection;

use super::id::ContentId;
use super::{Layout, MessageStore, MessageStoreError, content, pieces};

impl MessageStore {
    /// Returns the location of a message's bytes.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMessage`].
    pub async fn layout(&self, content: ContentId) -> Result<Layout, MessageStoreError> {
        self.read(|connection| content::layout(connection, content)).await
    }

    /// Returns the parsed structure of a message. Its offsets count from [`Layout::return_path_len`].
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMessage`].
    pub async fn structure(&self, content: ContentId) -> Result<MessageStructure, MessageStoreError> {
        self.read(|connection| content::structure(connection, content)).await
    }

    /// Loads a range of a message's bytes into memory, up to the end of the message.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMessage`] if the message was expunged.
    pub async fn load_range(&self, content: ContentId, range: Range<u64>) -> Result<Bytes, MessageStoreError> {
        let layout = self.layout(content).await?;
        self.load_from(layout, range).await
    }

    /// Loads a range of a located message.
    pub(crate) async fn load_from(&self, layout: Layout, range: Range<u64>) -> Result<Bytes, MessageStoreError> {
        let length = range.end.min(layout.size).saturating_sub(range.start);
        let job = move |connection: &Connection| pieces::read_range(connection, &layout, range);
        let is_long = length > self.settings().inline_bytes as u64;
        let bytes = if is_long { self.scan(job).await? } else { self.read(job).await? };
        Ok(bytes.into())
    }

    /// Loads a whole message into memory.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMessage`] if the message was expunged.
    pub async fn load(&self, content: ContentId) -> Result<Bytes, MessageStoreError> {
        self.load_range(content, 0..u64::MAX).await
    }

    /// Streams a range of a message, so that memory does not depend on its size. Ends with
    /// [`MessageStoreError::NoSuchMessage`] if the message is removed meanwhile.
    pub(crate) fn stream_range(
        &self,
        layout: Layout,
        range: Range<u64>,
    ) -> impl Stream<Item = Result<Bytes, MessageStoreError>> + Send + use<> {
        let end = range.end.min(layout.size);
        stream::try_unfold((self.clone(), layout, range.start), move |(message_store, layout, offset)| async move {
            if offset >= end {
                return Ok(None);
            }
            let next = layout.end_of_piece(offset).min(end);
            let piece = message_store.read(|connection| pieces::read_range(connection, &layout, offset..next)).await?;
            Ok(Some((Bytes::from(piece), (message_store, layout, next))))
        })
    }
}
