//! A body that is read from the connection.

use mailapi_backend::MailboxError;
use mailapi_imap::client::{Command, Event, FetchAttribute, Section, Untagged};

use crate::imap_pool::{ImapConnection, ImapError};

/// A section of a message whose response has begun.
pub(super) enum Content {
    /// This many bytes follow on the connection.
    Coming(u64),
    /// The server sent the bytes without a literal, which it may do for short sections.
    There(Vec<u8>),
}

impl Content {
    /// Returns the number of bytes before decoding.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Coming(bytes) => *bytes,
            Self::There(bytes) => bytes.len() as u64,
        }
    }
}

/// Requests a section of a message in the open folder, and reads until it begins.
pub(super) async fn begin(connection: &mut ImapConnection, uid: u32, section: Section) -> Result<Content, ImapError> {
    let missing = || ImapError::Mailbox(MailboxError::NoSuchMessage);
    let nothing = || ImapError::unavailable("the server sent no content of a message");
    if uid == 0 {
        return Err(missing());
    }
    connection.start(Command::uid_fetch(&[uid], &[FetchAttribute::Section(section)]).streaming())?;
    let (mut there, mut is_empty, mut is_one_gone) = (None, false, false);
    loop {
        match connection.event().await? {
            Event::BodyBegin(bytes) => return Ok(Content::Coming(bytes)),
            Event::Untagged(Untagged::Fetch(mut message)) if message.uid == Some(uid) => {
                if let Some(section) = message.sections.pop() {
                    is_empty |= section.bytes.is_none();
                    there = section.bytes.or(there);
                }
            }
            Event::Untagged(Untagged::Expunge(_)) => is_one_gone = true,
            // An expunged message also yields no bytes, but that is `NoSuchMessage`.
            Event::Done(status) if status.is_ok() && there.is_none() && is_empty && !is_one_gone => {
                return Err(nothing());
            }
            Event::Done(status) if status.is_ok() => return there.map(Content::There).ok_or_else(missing),
            Event::Done(status) => return Err(ImapError::Refused(status)),
            _ => {}
        }
    }
}
