//! Reads messages for an export.

use std::ops::ControlFlow;

use mailapi_model::Blob;

use super::id::FolderId;
use super::{EntryMeta, MessageStore, MessageStoreError, content, entry};

impl MessageStore {
    /// Returns at most `most` entries above a UID, by ascending UID.
    ///
    /// # Errors
    /// If the database fails. A removed folder has no entries.
    pub async fn entries_above(
        &self,
        folder: FolderId,
        uid: u32,
        most: usize,
    ) -> Result<Vec<EntryMeta>, MessageStoreError> {
        self.scan(move |connection| {
            let mut entries = Vec::new();
            entry::for_each_above(connection, folder, uid, |meta| {
                entries.push(meta);
                Ok(if entries.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            })?;
            Ok(entries)
        })
        .await
    }

    /// Returns the bytes of a message as IMAP shows them. A long message is in a file meanwhile.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMessage`] if it was removed.
    pub async fn message_of(&self, entry: &EntryMeta) -> Result<Blob, MessageStoreError> {
        let content = entry.content;
        let layout = self.read(|connection| content::layout(connection, content)).await?;
        let layout = layout.delivered_to(entry.delivered_to.as_deref());
        let whole = layout.whole();
        self.buffer_range(layout, whole).await
    }
}
