//! A cache of the immutable list data of messages, by folder, UIDVALIDITY and UID.

use std::sync::Arc;

use mailapi_backend::mime::{MessageStructure, recipient_of};
use mailapi_backend::{Correspondent, MessageSummary};
use mailapi_imap::client::{FetchAttribute, FetchedMessage, Section, SectionText};
use mailapi_model::{EmailAddress, FolderName, Timestamp};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::parts;
use super::settings::MailboxSettings;

/// A folder of one mailbox, while its UIDs are valid. A new UIDVALIDITY changes the key, so old entries are no longer
/// found and are evicted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FolderKey {
    pub(super) mailbox: EmailAddress,
    pub(super) folder: FolderName,
    pub(super) uid_validity: u32,
}

/// The cache of summaries without flags.
pub(super) struct Summaries {
    by_message: Cache<(Arc<FolderKey>, u32), Arc<MessageSummary>, Memory>,
    /// Folders with cached messages: for these it is worth fetching only the flags first.
    known: Cache<Arc<FolderKey>, ()>,
    remembers: bool,
}

/// The maximum number of known folders; others are fetched in full again.
const KNOWN_FOLDERS: usize = 10_000;

/// The usual memory of a summary.
const USUAL_SUMMARY: u64 = 512;

/// The approximate memory of a summary.
#[derive(Clone)]
struct Memory;

impl Summaries {
    /// Creates a cache of at most `max_bytes`; with 0 it stores nothing.
    pub(super) fn new(max_bytes: u64) -> Self {
        let messages = usize::try_from(max_bytes / USUAL_SUMMARY).unwrap_or(usize::MAX);
        Self {
            by_message: Cache::with_weighter(messages, max_bytes, Memory),
            known: Cache::new(KNOWN_FOLDERS),
            remembers: max_bytes > 0,
        }
    }

    pub(super) fn knows(&self, folder: &Arc<FolderKey>) -> bool {
        self.known.contains_key(folder)
    }

    /// Returns the cached summary with these flags.
    pub(super) fn get(&self, folder: &Arc<FolderKey>, uid: u32, flags: Vec<String>) -> Option<MessageSummary> {
        let kept = self.by_message.get(&(folder.clone(), uid))?;
        Some(MessageSummary { flags, ..MessageSummary::clone(&kept) })
    }

    /// Caches messages of a folder.
    pub(super) fn put(&self, folder: &Arc<FolderKey>, summaries: &[MessageSummary]) {
        if !self.remembers {
            return;
        }
        for summary in summaries {
            let kept = MessageSummary { flags: Vec::new(), ..summary.clone() };
            self.by_message.insert((folder.clone(), summary.uid), Arc::new(kept));
        }
        self.known.insert(folder.clone(), ());
    }
}

impl Weighter<(Arc<FolderKey>, u32), Arc<MessageSummary>> for Memory {
    fn weight(&self, _: &(Arc<FolderKey>, u32), summary: &Arc<MessageSummary>) -> u64 {
        const FIXED: usize = 256;
        const FLAG: usize = size_of::<String>();
        let person = |person: &Correspondent| size_of::<Correspondent>() + person.name.len() + person.email.len();
        let people = person(&summary.from) + summary.to.iter().map(person).sum::<usize>();
        let flags: usize = summary.flags.iter().map(|flag| FLAG + flag.len()).sum();
        let recipient = summary.recipient.as_ref().map_or(0, String::len);
        (FIXED + people + flags + summary.subject.len() + summary.message_id.len() + recipient) as u64
    }
}

/// The header fields of a summary. The last ones name the recipient ([`recipient_of`]).
const FIELDS: &[&str] =
    &["MESSAGE-ID", "FROM", "TO", "SUBJECT", "DATE", "DELIVERED-TO", "X-ORIGINAL-TO", "ENVELOPE-TO", "RECEIVED"];

/// Returns the attributes to fetch for [`summary`], without the flags.
pub(super) fn attributes(settings: &MailboxSettings) -> Vec<FetchAttribute> {
    let mut attributes = attributes_without_structure(settings);
    attributes.insert(2, FetchAttribute::BodyStructure);
    attributes
}

/// As [`attributes`], for a message whose structure cannot be parsed.
pub(super) fn attributes_without_structure(settings: &MailboxSettings) -> Vec<FetchAttribute> {
    vec![
        FetchAttribute::Size,
        FetchAttribute::Arrived,
        FetchAttribute::SectionSlice(Section::header_fields(FIELDS), 0, settings.summary_bytes),
    ]
}

/// Builds a summary from a response. Returns `None` if data is missing: updates of a message have the same form.
pub(super) fn summary(mut message: FetchedMessage, flags: Vec<String>) -> Option<MessageSummary> {
    let has_attachments = parts::has_attachments(message.body_structure.take()?);
    let header = message.section(&[], &SectionText::SomeHeaderFields)?;
    let recipient = recipient(header);
    let structure = MessageStructure::of_header_block(header);
    let summary = structure.into_summary(message.uid?, message.size?, flags, arrived(&message));
    Some(MessageSummary { has_attachments, recipient, ..summary })
}

/// Returns the address that a message was sent to.
pub(super) fn recipient(header: &[u8]) -> Option<String> {
    recipient_of(header).map(|recipient| recipient.as_str().to_owned())
}

pub(super) fn arrived(message: &FetchedMessage) -> Timestamp {
    Timestamp::from_seconds(message.arrived.unwrap_or_default())
}

/// Returns the flags to show: `\Recent` concerns the connection, not the message.
pub(super) fn shown_flags(mut flags: Vec<String>) -> Vec<String> {
    flags.retain(|flag| !flag.eq_ignore_ascii_case("\\Recent"));
    flags
}
