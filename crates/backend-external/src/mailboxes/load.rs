//! One message, as much of it as is needed to say what it consists of.

use std::sync::Arc;

use mailapi_backend::MailboxError;
use mailapi_backend::mime::Digest;
use mailapi_imap::client::{BodyStructure, Command, FetchAttribute, FetchedMessage, Section, SectionText, Untagged};
use mailapi_model::Timestamp;

use super::parts::Parts;
use super::settings::MailboxSettings;
use super::summaries::{arrived, shown_flags};
use crate::imap_pool::{ImapConnection, ImapError};

/// A message that was found.
pub(super) struct Loaded {
    pub(super) flags: Vec<String>,
    pub(super) size: u64,
    pub(super) arrived: Timestamp,
    pub(super) content: Loading,
}

/// What was fetched of it.
pub(super) enum Loading {
    /// All of it, and what it consists of, uncut.
    Whole { raw: Vec<u8>, digest: Box<Digest> },
    /// What the server tells of its parts.
    Parts(Arc<Parts>),
}

/// What is asked of a message for [`Loaded`]. Of what it consists, a server is asked only where that is needed: most
/// messages are taken apart here.
pub(super) fn attributes(settings: &MailboxSettings) -> Vec<FetchAttribute> {
    vec![
        FetchAttribute::Flags,
        FetchAttribute::Size,
        FetchAttribute::Arrived,
        FetchAttribute::SectionSlice(Section::message(), 0, settings.whole_message_octets),
    ]
}

/// Finds the message in the folder that is open, and stays with that opening. What the connection knows of the folder
/// is asked for again when it may be old.
pub(super) async fn load_from_open(
    connection: &mut ImapConnection,
    uid: u32,
    was_open: bool,
    settings: &MailboxSettings,
) -> Result<Loaded, ImapError> {
    let mut found = match fetch_current(connection, uid, &attributes(settings)).await {
        Ok(None) | Err(ImapError::Refused(_)) if was_open => {
            connection.refresh().await?;
            fetch_one(connection, uid, &attributes(settings)).await?
        }
        found => found?.ok_or(ImapError::Told(MailboxError::NoSuchMessage))?,
    };
    let size = found.size.ok_or_else(|| ImapError::unavailable("the server told no size"))?;
    let start = found.take_section(&[], &SectionText::All).unwrap_or_default();
    let (flags, arrived) = (shown_flags(found.flags.take().unwrap_or_default()), arrived(&found));
    // Some servers err in the size; a slice that is shorter than was asked for is certainly all.
    let is_whole = start.len() < settings.whole_message_octets as usize || start.len() as u64 == size;
    let content = if is_whole { whole(start) } else { of_parts(connection, uid, size, settings).await? };
    Ok(Loaded { flags, size, arrived, content })
}

fn whole(raw: Vec<u8>) -> Loading {
    let digest = Box::new(Digest::uncut(&raw));
    Loading::Whole { raw, digest }
}

async fn of_parts(
    connection: &mut ImapConnection,
    uid: u32,
    size: u64,
    settings: &MailboxSettings,
) -> Result<Loading, ImapError> {
    let parts = Parts::of(fetch_structure(connection, uid).await?);
    if !parts.is_doubtful || size > u64::from(settings.doubtful_message_octets) {
        return Ok(Loading::Parts(Arc::new(parts)));
    }
    let all = FetchAttribute::SectionSlice(Section::message(), 0, settings.doubtful_message_octets);
    let mut found = fetch_one(connection, uid, &[all]).await?;
    let raw = found.sections.pop().and_then(|section| section.octets);
    Ok(whole(raw.unwrap_or_default()))
}

/// What the server tells of the parts of a message of the open folder.
async fn fetch_structure(connection: &mut ImapConnection, uid: u32) -> Result<BodyStructure, ImapError> {
    let mut found = None;
    let fetched = connection.run(Command::uid_fetch(&[uid], &[FetchAttribute::BodyStructure]), |untagged| {
        let Untagged::Fetch(message) = untagged else { return };
        if message.uid == Some(uid) {
            // News of the same message come in the same form, without a structure.
            found = message.body_structure.or(found.take()).or(Some(BodyStructure::Opaque));
        }
    });
    fetched.await?;
    found.ok_or(ImapError::Told(MailboxError::NoSuchMessage))
}

/// Data of one message, as it is now though nobody asked for news: the server tells them behind the data. `None` when
/// the folder has no such message, or when a message is gone and it may be this one.
pub(super) async fn fetch_current(
    connection: &mut ImapConnection,
    uid: u32,
    attributes: &[FetchAttribute],
) -> Result<Option<FetchedMessage>, ImapError> {
    if uid == 0 {
        return Ok(None);
    }
    let (wanted, mut is_one_gone, mut found) = (sections(attributes), false, None::<Box<FetchedMessage>>);
    let fetched = connection.run(Command::uid_fetch(&[uid], attributes), |untagged| match (untagged, &mut found) {
        (Untagged::Expunge(_), _) => is_one_gone = true,
        (Untagged::Fetch(message), _) if message.uid == Some(uid) && message.sections.len() >= wanted => {
            found = Some(message);
        }
        (Untagged::Fetch(news), Some(found)) if news.sequence == found.sequence && news.flags.is_some() => {
            found.flags = news.flags;
        }
        _ => {}
    });
    fetched.await?;
    Ok(found.filter(|_| !is_one_gone).map(|message| *message))
}

/// Data of one message of the open folder.
pub(super) async fn fetch_one(
    connection: &mut ImapConnection,
    uid: u32,
    attributes: &[FetchAttribute],
) -> Result<FetchedMessage, ImapError> {
    let missing = ImapError::Told(MailboxError::NoSuchMessage);
    if uid == 0 {
        return Err(missing);
    }
    let (wanted, mut found) = (sections(attributes), None);
    let fetched = connection.run(Command::uid_fetch(&[uid], attributes), |untagged| {
        if let Untagged::Fetch(message) = untagged
            && message.uid == Some(uid)
            && message.sections.len() >= wanted
        {
            found = Some(message);
        }
    });
    fetched.await?;
    found.map(|message| *message).ok_or(missing)
}

/// How many sections are asked for.
fn sections(attributes: &[FetchAttribute]) -> usize {
    let is_section = |it: &&FetchAttribute| matches!(it, FetchAttribute::Section(_) | FetchAttribute::SectionSlice(..));
    attributes.iter().filter(is_section).count()
}
