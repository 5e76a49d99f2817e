//! Reads one message.

use mailapi_backend::mime::{MessageStructure, headers};
use mailapi_backend::{AttachmentInfo, FullMessage};
use mailapi_imap::client::{FetchAttribute, FetchedMessage, Section};
use mailapi_model::{EmailAddress, FolderName, Timestamp};

use super::exact_size::{ExactSizes, Measured, MessageKey};
use super::load::{self, Loaded, Loading, fetch_current, fetch_one};
use super::parts::Parts;
use super::settings::MailboxSettings;
use super::summaries::{arrived, recipient, shown_flags};
use crate::imap_pool::{ImapConnection, ImapError, Job};

/// Reads a message without the content of its attachments.
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
        let was_open = connection.folder().is_some_and(|open| open.name == *self.folder);
        let open = connection.open_as_it_is(self.folder).await?;
        let key = MessageKey::new(self.mailbox, self.folder, open.uid_validity, self.uid);
        if let Some(measured) = self.exact_sizes.get(&key) {
            match self.of_known_parts(connection, &measured).await {
                // The connection's state of the folder may be outdated; the steps below refresh it.
                Ok(None) | Err(ImapError::Refused(_)) => {}
                Ok(Some(message)) => return Ok(message),
                Err(error) => return Err(error),
            }
        }
        let loaded = load::load_from_open(connection, self.uid, was_open, self.settings).await?;
        match loaded.content {
            Loading::Whole { raw, structure } => {
                Ok(structure.into_full_message(&raw, self.uid, loaded.size, loaded.flags, loaded.arrived))
            }
            Loading::Parts(ref parts) => {
                let measured = self.exact_sizes.of(connection, &key, parts, self.settings).await?;
                let message = of_parts(connection, self.uid, &loaded, parts, self.settings).await?;
                Ok(measured.apply_to(message))
            }
        }
    }
}

impl ReadMessage<'_> {
    /// Reads a message whose parts are cached, with one command. Returns `None` if it may have been removed.
    async fn of_known_parts(
        &self,
        connection: &mut ImapConnection,
        measured: &Measured,
    ) -> Result<Option<FullMessage>, ImapError> {
        let mut attributes = vec![FetchAttribute::Flags, FetchAttribute::Size, FetchAttribute::Arrived];
        attributes.extend(sections(&measured.parts, self.settings));
        let Some(mut found) = fetch_current(connection, self.uid, &attributes).await? else { return Ok(None) };
        let size = found.size.ok_or_else(|| ImapError::unavailable("the server sent no size"))?;
        let flags = shown_flags(found.flags.take().unwrap_or_default());
        let message = assembled(&found, self.uid, size, flags, arrived(&found), &measured.parts);
        Ok(Some(measured.apply_to(message)))
    }
}

/// Fetches the header and the bodies of a message. The attachment sizes are those before decoding.
pub(super) async fn of_parts(
    connection: &mut ImapConnection,
    uid: u32,
    loaded: &Loaded,
    parts: &Parts,
    settings: &MailboxSettings,
) -> Result<FullMessage, ImapError> {
    let found = fetch_one(connection, uid, &sections(parts, settings)).await?;
    Ok(assembled(&found, uid, loaded.size, loaded.flags.clone(), loaded.arrived, parts))
}

/// Returns the sections of the header and the bodies.
fn sections(parts: &Parts, settings: &MailboxSettings) -> Vec<FetchAttribute> {
    let mut sections = vec![FetchAttribute::SectionSlice(Section::header(), 0, settings.header_bytes)];
    for body in &parts.chosen.bodies {
        let section = Section::part(parts.path(body.part));
        sections.push(FetchAttribute::SectionSlice(section, 0, settings.body_bytes));
    }
    sections
}

fn assembled(
    found: &FetchedMessage,
    uid: u32,
    size: u64,
    flags: Vec<String>,
    arrived: Timestamp,
    parts: &Parts,
) -> FullMessage {
    let chosen = &parts.chosen;
    let header = bytes(found, &Section::header());
    let mut structure = MessageStructure::of_header_block(header);
    let cc = std::mem::take(&mut structure.cc);
    let mut summary = structure.into_summary(uid, size, flags, arrived);
    (summary.has_attachments, summary.recipient) = (!chosen.attachments.is_empty(), recipient(header));
    let (text, html) = chosen.decode_bodies(|body| bytes(found, &Section::part(parts.path(body.part))));
    let attachments: Vec<AttachmentInfo> = chosen.attachments.iter().map(|one| one.info.clone()).collect();
    FullMessage { summary, headers: headers(header), text, html, attachments, cc }
}

fn bytes<'a>(found: &'a FetchedMessage, section: &Section) -> &'a [u8] {
    found.section(&section.part, &section.text).unwrap_or_default()
}
