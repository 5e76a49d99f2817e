//! Reading octets: ranges at once, long ones as a stream of pieces.

use std::ops::Range;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;
use mailapi_backend::mime::Digest;
use mailapi_model::{EmailAddress, FolderName};
use rusqlite::Connection;

use super::id::ContentId;
use super::{EntryMeta, Layout, Maildrop, MaildropError, content, entry, folder, mailbox};

impl Maildrop {
    /// Where the octets of a message lie.
    ///
    /// # Errors
    /// [`MaildropError::NoSuchMessage`].
    pub async fn layout(&self, content: ContentId) -> Result<Layout, MaildropError> {
        self.read(|connection| content::layout(connection, content)).await
    }

    /// What is kept of a parsed message. Its offsets count from [`Layout::return_path_len`] on.
    ///
    /// # Errors
    /// [`MaildropError::NoSuchMessage`].
    pub async fn digest(&self, content: ContentId) -> Result<Digest, MaildropError> {
        self.read(|connection| content::digest(connection, content)).await
    }

    /// A range of a message's octets; what of it lies beyond the end is left out. Keeps all of it in memory.
    ///
    /// # Errors
    /// [`MaildropError::NoSuchMessage`] when the message was expunged.
    pub async fn load_range(&self, content: ContentId, range: Range<u64>) -> Result<Bytes, MaildropError> {
        let layout = self.layout(content).await?;
        let length = range.end.min(layout.size).saturating_sub(range.start);
        let job = move |connection: &Connection| content::read_range(connection, &layout, range);
        let is_long = length > self.settings().inline_bytes as u64;
        let octets = if is_long { self.scan(job).await? } else { self.read(job).await? };
        Ok(octets.into())
    }

    /// A whole message. Keeps all of it in memory.
    ///
    /// # Errors
    /// [`MaildropError::NoSuchMessage`] when the message was expunged.
    pub async fn load(&self, content: ContentId) -> Result<Bytes, MaildropError> {
        self.load_range(content, 0..u64::MAX).await
    }

    /// A range of a message piece by piece, so that memory does not grow with it. Ends with
    /// [`MaildropError::NoSuchMessage`] when the message is removed meanwhile.
    pub fn stream_range(
        &self,
        layout: Layout,
        range: Range<u64>,
    ) -> impl Stream<Item = Result<Bytes, MaildropError>> + Send + use<> {
        let end = range.end.min(layout.size);
        stream::try_unfold((self.clone(), range.start), move |(maildrop, offset)| async move {
            if offset >= end {
                return Ok(None);
            }
            let piece = maildrop.read(|connection| content::read_piece(connection, &layout, offset, end)).await?;
            let next = offset + piece.len() as u64;
            Ok(Some((Bytes::from(piece), (maildrop, next))))
        })
    }
}

/// The entry that a mailbox, a folder's name and a UID name, told apart by what of it is missing.
pub(crate) fn locate(
    connection: &Connection,
    mailbox: &EmailAddress,
    folder: &FolderName,
    uid: u32,
) -> Result<EntryMeta, MaildropError> {
    let mailbox = mailbox::expect(connection, mailbox)?;
    let folder = folder::expect(connection, mailbox.id, folder)?;
    entry::find(connection, folder.id, uid)?.ok_or(MaildropError::NoSuchMessage)
}
