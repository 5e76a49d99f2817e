//! One message, opened.

use mailapi_backend::mime::{DescribedBody, Digest, headers};
use mailapi_backend::{AttachmentInfo, FullMessage};
use mailapi_imap::client::{FetchAttribute, FetchedMessage, Section};
use mailapi_model::{EmailAddress, FolderName};

use super::exact_size::{ExactSizes, MessageKey};
use super::load::{self, Loaded, Loading, fetch_one};
use super::parts::Parts;
use super::settings::MailboxSettings;
use crate::imap_pool::{ImapConnection, ImapError, Job};

/// Reads a message without the octets of its attachments.
pub(super) struct ReadMessage<'a> {
    pub(super) mailbox: &'a EmailAddress,
    pub(super) folder: &'a FolderName,
    pub(super) uid: u32,
    pub(super) exact_sizes: &'a ExactSizes,
    pub(super) settings: &'a MailboxSettings,
}

impl Job for ReadMessage<'_> {
    type Output = FullMessage;

    async fn run(&self, connection: &mut ImapConnection) -> Result<FullMessage, ImapError> {
        let loaded = load::load(connection, self.folder, self.uid, self.settings).await?;
        match loaded.content {
            Loading::Whole { raw, digest } => {
                Ok(digest.into_full_message(&raw, self.uid, loaded.size, loaded.flags, loaded.arrived))
            }
            Loading::Parts(ref parts) => {
                let key = MessageKey::new(self.mailbox, self.folder, loaded.uid_validity, self.uid);
                let measured = self.exact_sizes.of(connection, &key, parts, self.settings).await?;
                let mut message = of_parts(connection, self.uid, &loaded, parts, self.settings).await?;
                for (attachment, &size) in message.attachments.iter_mut().zip(&measured.sizes) {
                    attachment.size = size;
                }
                Ok(message)
            }
        }
    }
}

/// A message of which the header and the bodies are fetched one by one. The sizes of attachments are those of their
/// octets as they are written.
pub(super) async fn of_parts(
    connection: &mut ImapConnection,
    uid: u32,
    loaded: &Loaded,
    parts: &Parts,
    settings: &MailboxSettings,
) -> Result<FullMessage, ImapError> {
    let chosen = &parts.chosen;
    let mut attributes = vec![FetchAttribute::SectionSlice(Section::header(), 0, settings.header_octets)];
    for body in [&chosen.text, &chosen.html].into_iter().flatten() {
        let section = Section::part(parts.path(body.part));
        attributes.push(FetchAttribute::SectionSlice(section, 0, settings.body_octets));
    }
    let found = fetch_one(connection, uid, &attributes).await?;
    let header = octets(&found, &Section::header());
    let mut digest = Digest::of_header_block(header);
    let cc = std::mem::take(&mut digest.cc);
    let mut summary = digest.into_summary(uid, loaded.size, loaded.flags.clone(), loaded.arrived);
    summary.has_attachments = !chosen.attachments.is_empty();
    let text_of = |body: &DescribedBody| body.decode(octets(&found, &Section::part(parts.path(body.part))));
    let attachments: Vec<AttachmentInfo> = chosen.attachments.iter().map(|one| one.info.clone()).collect();
    Ok(FullMessage {
        summary,
        headers: headers(header),
        text: chosen.text.as_ref().map(text_of),
        html: chosen.html.as_ref().map(text_of),
        attachments,
        cc,
    })
}

fn octets<'a>(found: &'a FetchedMessage, section: &Section) -> &'a [u8] {
    found.section(&section.part, &section.text).unwrap_or_default()
}
