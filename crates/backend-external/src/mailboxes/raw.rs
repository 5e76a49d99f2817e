//! Reads a message as it was received.

use mailapi_backend::OpenedMessage;
use mailapi_backend::mime::{TransferDecoder, TransferEncoding};
use mailapi_imap::client::Section;
use mailapi_model::FolderName;

use super::content::{self, Content};
use super::download;
use crate::imap_pool::{ImapConnection, ImapError, Job, PooledConnection};

/// Opens a message for reading.
pub(super) struct OpenRaw<'a> {
    pub(super) folder: &'a FolderName,
    pub(super) uid: u32,
}

impl Job for OpenRaw<'_> {
    type Output = Content;

    async fn run(&self, connection: &mut ImapConnection) -> Result<Content, ImapError> {
        connection.open(self.folder).await?;
        content::begin(connection, self.uid, Section::message()).await
    }
}

/// Returns the opened message as a stream.
pub(super) fn stream(content: Content, pooled: PooledConnection) -> OpenedMessage {
    let size = content.bytes();
    let decoder = TransferDecoder::new(TransferEncoding::Identity);
    OpenedMessage { size, content: download::stream(content, pooled, decoder, size, |_| {}) }
}
