//! Extracts the searchable text, author, subject and date of messages, as reading them shows.

use mailapi_backend::mime::{MessageStructure, SearchableText};
use mailapi_backend::{FullMessage, MailboxError};
use mailapi_imap::client::{Code, Command, FetchAttribute, FetchedMessage, Section, SectionText, Untagged};

use crate::imap_pool::{ImapConnection, ImapError};
use crate::mailboxes::load::{self, Loading};
use crate::mailboxes::read;
use crate::mailboxes::settings::MailboxSettings;
use crate::mailboxes::summaries::arrived;
use crate::search_index::{Entry, SearchSettings};

/// The texts of some messages.
pub(super) struct Texts {
    pub(super) entries: Vec<Entry>,
    /// The lowest requested UID that was left out, because there was enough text or the server refused.
    pub(super) unread: Option<u32>,
}

/// Returns the attribute for the start of a message.
pub(super) fn start_of_message(settings: &MailboxSettings) -> FetchAttribute {
    FetchAttribute::SectionSlice(Section::message(), 0, settings.whole_message_bytes)
}

pub(super) fn start_of(message: &FetchedMessage) -> Option<&[u8]> {
    message.section(&[], &SectionText::All)
}

/// Reads messages of the open folder. Removed messages are omitted.
pub(super) async fn read(
    connection: &mut ImapConnection,
    uids: &[u32],
    settings: &MailboxSettings,
    limits: &SearchSettings,
) -> Result<Texts, ImapError> {
    let (mut entries, mut longer) = (Vec::new(), Vec::new());
    let attributes = [FetchAttribute::Arrived, start_of_message(settings)];
    let fetched = connection.run(Command::uid_fetch(uids, &attributes), |untagged| {
        let Untagged::Fetch(message) = untagged else { return };
        let (Some(uid), Some(raw)) = (message.uid, start_of(&message)) else { return };
        if raw.len() < settings.whole_message_bytes as usize {
            entries.push(of_whole(uid, raw, &message));
        } else {
            longer.push(uid);
        }
    });
    let is_refused = match fetched.await {
        // Some of them were expunged during the fetch; the others exist (RFC 5530 section 3).
        Err(ImapError::Refused(status)) if status.code == Some(Code::Other("EXPUNGEISSUED".to_owned())) => true,
        outcome => outcome.map(|_| false)?,
    };
    entries.retain(|entry| uids.contains(&entry.uid));
    let mut unread = uids
        .iter()
        .copied()
        .filter(|uid| is_refused && !longer.contains(uid) && !entries.iter().any(|entry| entry.uid == *uid));
    let mut unread = unread.next();
    longer.sort_unstable();
    longer.dedup();
    let mut bytes: usize = entries.iter().map(|entry| entry.text.len()).sum();
    for uid in longer {
        // Read at least one, so that each step makes progress.
        if bytes >= limits.batch_bytes && !entries.is_empty() {
            unread = Some(unread.map_or(uid, |unread| unread.min(uid)));
            break;
        }
        let entry = of_longer(connection, uid, settings).await?;
        bytes += entry.as_ref().map_or(0, |entry| entry.text.len());
        entries.extend(entry);
    }
    Ok(Texts { entries, unread })
}

/// Builds the entry of a message that was fetched whole.
pub(super) fn of_whole(uid: u32, raw: &[u8], message: &FetchedMessage) -> Entry {
    let structure = MessageStructure::of(raw);
    let text = SearchableText::of(raw, &structure).joined();
    let at = arrived(message);
    let date = structure.date.unwrap_or(at);
    Entry { uid, arrived: at.as_seconds(), date, from: structure.from, subject: structure.subject, text }
}

/// Reads a longer message of the open folder; `None` if it was removed.
pub(super) async fn of_longer(
    connection: &mut ImapConnection,
    uid: u32,
    settings: &MailboxSettings,
) -> Result<Option<Entry>, ImapError> {
    // Do not reopen: the name may meanwhile belong to another folder.
    let loaded = match load::load_from_open(connection, uid, true, settings).await {
        Err(ImapError::Mailbox(MailboxError::NoSuchMessage)) => return Ok(None),
        loaded => loaded?,
    };
    let message: FullMessage = match loaded.content {
        Loading::Whole { raw, structure } => {
            structure.into_full_message(&raw, uid, loaded.size, loaded.flags, loaded.arrived)
        }
        Loading::Parts(ref parts) => match read::of_parts(connection, uid, &loaded, parts, settings).await {
            Err(ImapError::Mailbox(MailboxError::NoSuchMessage)) => return Ok(None),
            message => message?,
        },
    };
    let text = SearchableText::of_message(&message).joined();
    let (arrived, summary) = (loaded.arrived.as_seconds(), message.summary);
    Ok(Some(Entry { uid, arrived, date: summary.date, from: summary.from, subject: summary.subject, text }))
}
