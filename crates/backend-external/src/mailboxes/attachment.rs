//! Reads one attachment.

use mailapi_backend::mime::{TransferDecoder, decode};
use mailapi_backend::{AttachmentInfo, MailboxError, OpenedAttachment};
use mailapi_imap::client::Section;
use mailapi_model::{EmailAddress, FolderName};

use super::content::{self, Content};
use super::download;
use super::exact_size::{ExactSizes, Measured, MessageKey};
use super::load::{self, Loading};
use super::settings::MailboxSettings;
use crate::imap_pool::{ImapConnection, ImapError, Job, PooledConnection};

/// Opens an attachment for reading.
pub(super) struct OpenAttachment<'a> {
    pub(super) mailbox: &'a EmailAddress,
    pub(super) folder: &'a FolderName,
    pub(super) uid: u32,
    pub(super) index: u32,
    pub(super) exact_sizes: &'a ExactSizes,
    pub(super) settings: &'a MailboxSettings,
}

/// An opened attachment.
pub(super) struct Begun {
    info: AttachmentInfo,
    bytes: Blob,
}

enum Blob {
    /// Already decoded, as part of a short message.
    Decoded(Vec<u8>),
    /// Still on the connection.
    Coming { content: Content, decoder: TransferDecoder, key: MessageKey },
}

impl Job for OpenAttachment<'_> {
    type Output = Begun;

    async fn run(&self, connection: &mut ImapConnection) -> Result<Begun, ImapError> {
        let open = connection.open_as_it_is(self.folder).await?;
        let key = MessageKey::new(self.mailbox, self.folder, open.uid_validity, self.uid);
        if let Some(measured) = self.exact_sizes.get(&key) {
            match self.begin(connection, &measured, key.clone()).await {
                // The connection's state of the folder may be outdated; the steps below refresh it.
                Err(ImapError::Mailbox(MailboxError::NoSuchMessage) | ImapError::Refused(_)) => {}
                begun => return begun,
            }
        }
        let loaded = load::load_from_open(connection, self.uid, true, self.settings).await?;
        let index = self.index as usize;
        match loaded.content {
            Loading::Whole { raw, structure } => {
                let found = structure.attachments.get(index).ok_or_else(missing)?;
                let bytes = Blob::Decoded(decode(found.span.encoding, found.span.of(&raw)));
                Ok(Begun { info: found.info.clone(), bytes })
            }
            Loading::Parts(parts) => {
                let measured = self.exact_sizes.of(connection, &key, &parts, self.settings).await?;
                self.begin(connection, &measured, key).await
            }
        }
    }
}

impl OpenAttachment<'_> {
    async fn begin(
        &self,
        connection: &mut ImapConnection,
        measured: &Measured,
        key: MessageKey,
    ) -> Result<Begun, ImapError> {
        let (index, parts) = (self.index as usize, &measured.parts);
        let found = parts.chosen.attachments.get(index).ok_or_else(missing)?;
        let size = measured.sizes.get(index).copied().unwrap_or_default();
        let info = AttachmentInfo { size, ..found.info.clone() };
        let content = content::begin(connection, self.uid, Section::part(parts.path(found.part))).await?;
        let decoder = TransferDecoder::new(found.encoding);
        Ok(Begun { info, bytes: Blob::Coming { content, decoder, key } })
    }
}

fn missing() -> ImapError {
    ImapError::Mailbox(MailboxError::NoSuchAttachment)
}

/// Returns the opened attachment as a stream.
pub(super) fn stream(begun: Begun, pooled: PooledConnection, exact_sizes: &ExactSizes) -> OpenedAttachment {
    let Begun { info, bytes } = begun;
    let content = match bytes {
        Blob::Decoded(bytes) => download::of_memory(bytes),
        Blob::Coming { content, decoder, key } => {
            let (exact_sizes, index) = (exact_sizes.clone(), info.index as usize);
            let correct = move |size| exact_sizes.correct(&key, index, size);
            download::stream(content, pooled, decoder, info.size, correct)
        }
    };
    OpenedAttachment { info, content }
}
