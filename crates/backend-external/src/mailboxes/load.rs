//! Loads as much of a message as its structure requires.

use std::sync::Arc;

use mailapi_backend::MailboxError;
use mailapi_backend::mime::MessageStructure;
use mailapi_imap::client::{BodyStructure, Command, FetchAttribute, FetchedMessage, Section, SectionText, Untagged};
use mailapi_model::Timestamp;

use super::parts::Parts;
use super::settings::MailboxSettings;
use super::summaries::{arrived, shown_flags};
use crate::imap_pool::{ImapConnection, ImapError};

/// A loaded message.
pub(super) struct Loaded {
    pub(super) flags: Vec<String>,
    pub(super) size: u64,
    pub(super) arrived: Timestamp,
    pub(super) content: Loading,
}

/// The fetched part of a message.
pub(super) enum Loading {
    /// The whole message and its structure.
    Whole { raw: Vec<u8>, structure: Box<MessageStructure> },
    /// The parts according to the server.
    Parts(Arc<Parts>),
}

/// Returns the attributes to fetch for [`Loaded`]. They do not include the structure: most messages are short and
/// parsed here.
pub(super) fn attributes(settings: &MailboxSettings) -> Vec<FetchAttribute> {
    vec![
        FetchAttribute::Flags,
        FetchAttribute::Size,
        FetchAttribute::Arrived,
        FetchAttribute::SectionSlice(Section::message(), 0, settings.whole_message_bytes),
    ]
}

/// Loads a message from the open folder, without reopening it. Refreshes the folder first if its state may be
/// outdated.
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
        found => found?.ok_or(ImapError::Mailbox(MailboxError::NoSuchMessage))?,
    };
    let size = found.size.ok_or_else(|| ImapError::unavailable("the server sent no size"))?;
    let start = found.take_section(&[], &SectionText::All).ok_or_else(left_out)?;
    let (flags, arrived) = (shown_flags(found.flags.take().unwrap_or_default()), arrived(&found));
    // Some servers report a wrong size. A slice shorter than requested is certainly the whole message.
    let is_whole = start.len() < settings.whole_message_bytes as usize || start.len() as u64 == size;
    let content = if is_whole { whole(start) } else { of_parts(connection, uid, size, settings).await? };
    Ok(Loaded { flags, size, arrived, content })
}

fn whole(raw: Vec<u8>) -> Loading {
    let structure = Box::new(MessageStructure::uncut(&raw));
    Loading::Whole { raw, structure }
}

async fn of_parts(
    connection: &mut ImapConnection,
    uid: u32,
    size: u64,
    settings: &MailboxSettings,
) -> Result<Loading, ImapError> {
    let parts = Parts::of(fetch_structure(connection, uid).await?);
    if !parts.is_doubtful || size > u64::from(settings.doubtful_message_bytes) {
        return Ok(Loading::Parts(Arc::new(parts)));
    }
    // The server's description may be incomplete, so parse the message here.
    let all = FetchAttribute::SectionSlice(Section::message(), 0, settings.doubtful_message_bytes);
    let mut found = fetch_one(connection, uid, &[all]).await?;
    found.take_section(&[], &SectionText::All).map(whole).ok_or_else(left_out)
}

/// Fetches the structure of a message in the open folder.
async fn fetch_structure(connection: &mut ImapConnection, uid: u32) -> Result<BodyStructure, ImapError> {
    let mut is_too_long = false;
    let found = fetch_noting(connection, uid, &[FetchAttribute::BodyStructure], &mut is_too_long).await;
    match found {
        Err(ImapError::Mailbox(_)) if is_too_long => Ok(BodyStructure::Opaque),
        found => found?.body_structure.ok_or_else(left_out),
    }
}

/// Returns the error for a response without some of the requested data.
fn left_out() -> ImapError {
    ImapError::unavailable("the server omitted a part of a message")
}

/// Fetches current data of one message without refreshing the folder: the server sends updates after the data.
/// Returns `None` if the message does not exist, or if an expunged message may be this one.
pub(super) async fn fetch_current(
    connection: &mut ImapConnection,
    uid: u32,
    attributes: &[FetchAttribute],
) -> Result<Option<FetchedMessage>, ImapError> {
    if uid == 0 {
        return Ok(None);
    }
    let (mut is_one_gone, mut is_named, mut found) = (false, false, None::<Box<FetchedMessage>>);
    let fetched = connection.run(Command::uid_fetch(&[uid], attributes), |untagged| match (untagged, &mut found) {
        (Untagged::Expunge(_), _) => is_one_gone = true,
        (Untagged::Fetch(message), _) if message.uid == Some(uid) && message.has_all(attributes) => {
            found = Some(message);
        }
        (Untagged::Fetch(news), Some(found)) if is_news_of(&news, found) => found.flags = news.flags,
        (Untagged::Fetch(message), None) => is_named |= message.uid == Some(uid) && message.has_contents(),
        _ => {}
    });
    fetched.await?;
    // For a message that is removed meanwhile, Dovecot sends parts without bytes.
    if found.is_none() && is_named && !is_one_gone {
        return Err(left_out());
    }
    Ok(found.filter(|_| !is_one_gone).map(|message| *message))
}

/// Whether a response updates the message's flags. An unsolicited one may omit the UID.
fn is_news_of(news: &FetchedMessage, message: &FetchedMessage) -> bool {
    news.sequence == message.sequence && news.flags.is_some() && (news.uid.is_none() || news.uid == message.uid)
}

/// Fetches data of one message in the open folder.
pub(super) async fn fetch_one(
    connection: &mut ImapConnection,
    uid: u32,
    attributes: &[FetchAttribute],
) -> Result<FetchedMessage, ImapError> {
    fetch_noting(connection, uid, attributes, &mut false).await
}

/// As [`fetch_one`]; also records whether a response was too long to parse.
async fn fetch_noting(
    connection: &mut ImapConnection,
    uid: u32,
    attributes: &[FetchAttribute],
    is_too_long: &mut bool,
) -> Result<FetchedMessage, ImapError> {
    let missing = ImapError::Mailbox(MailboxError::NoSuchMessage);
    if uid == 0 {
        return Err(missing);
    }
    let (mut is_one_gone, mut is_named, mut found) = (false, false, None);
    let fetched = connection.run(Command::uid_fetch(&[uid], attributes), |untagged| match untagged {
        Untagged::Fetch(message) if message.uid == Some(uid) && message.has_all(attributes) => found = Some(message),
        Untagged::Fetch(message) => is_named |= message.uid == Some(uid) && message.has_contents(),
        Untagged::Expunge(_) => is_one_gone = true,
        Untagged::TooLong(_) => *is_too_long = true,
        _ => {}
    });
    fetched.await?;
    let absent = if is_named && !is_one_gone { left_out() } else { missing };
    found.map(|message| *message).ok_or(absent)
}

/// Checks that these messages, which a response omitted, were removed from the open folder.
pub(super) async fn demand_gone(connection: &mut ImapConnection, uids: &[u32]) -> Result<(), ImapError> {
    if uids.is_empty() {
        return Ok(());
    }
    connection.refresh().await?;
    let mut is_there = false;
    let asked = connection.run(Command::uid_fetch(uids, &[FetchAttribute::Flags]), |untagged| {
        if let Untagged::Fetch(message) = untagged {
            is_there |= message.uid.is_some_and(|uid| uids.contains(&uid));
        }
    });
    asked.await?;
    if is_there { Err(ImapError::unavailable("the server omitted a message")) } else { Ok(()) }
}
