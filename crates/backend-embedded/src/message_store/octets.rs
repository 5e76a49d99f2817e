//! Reading octets: ranges at once, long ones as a stream of pieces.

use std::ops::Range;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;
use mailapi_backend::mime::MessageStructure;
use rusqlite::Connection;

use super::id::ContentId;
use super::{Layout, MessageStore, MessageStoreError, content, pieces};

impl MessageStore {
    /// Where the octets of a message lie.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMessage`].
    pub async fn layout(&self, content: ContentId) -> Result<Layout, MessageStoreError> {
        self.read(|connection| content::layout(connection, content)).await
    }

    /// What is kept of a parsed message. Its offsets count from [`Layout::return_path_len`] on.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMessage`].
    pub async fn structure(&self, content: ContentId) -> Result<MessageStructure, MessageStoreError> {
        self.read(|connection| content::structure(connection, content)).await
    }

    /// A range of a message's octets; what of it lies beyond the end is left out. Keeps all of it in memory.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMessage`] when the message was expunged.
    pub async fn load_range(&self, content: ContentId, range: Range<u64>) -> Result<Bytes, MessageStoreError> {
        let layout = self.layout(content).await?;
        let length = range.end.min(layout.size).saturating_sub(range.start);
        let job = move |connection: &Connection| pieces::read_range(connection, &layout, range);
        let is_long = length > self.settings().inline_bytes as u64;
        let octets = if is_long { self.scan(job).await? } else { self.read(job).await? };
        Ok(octets.into())
    }

    /// A whole message. Keeps all of it in memory.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMessage`] when the message was expunged.
    pub async fn load(&self, content: ContentId) -> Result<Bytes, MessageStoreError> {
        self.load_range(content, 0..u64::MAX).await
    }

    /// A range of a message piece by piece, so that memory does not grow with it. Ends with
    /// [`MessageStoreError::NoSuchMessage`] when the message is removed meanwhile.
    pub fn stream_range(
        &self,
        layout: Layout,
        range: Range<u64>,
    ) -> impl Stream<Item = Result<Bytes, MessageStoreError>> + Send + use<> {
        let end = range.end.min(layout.size);
        stream::try_unfold((self.clone(), range.start), move |(message_store, offset)| async move {
            if offset >= end {
                return Ok(None);
            }
            let next = layout.end_of_piece(offset).min(end);
            let piece = message_store.read(|connection| pieces::read_range(connection, &layout, offset..next)).await?;
            Ok(Some((Bytes::from(piece), (message_store, next))))
        })
    }
}
