//! SEARCH. Most keys need only the stored rows. Texts are first looked up in the index, then compared like the
//! API's search: decoded and without case.

use std::cell::{Cell, OnceCell};
use std::collections::{HashMap, HashSet};

use jiff::civil::Date;
use jiff::tz::Offset;
use mailapi_backend::mime::{Header, any_text, fold, may_hold_text};
use mailapi_imap::Flags;
use mailapi_imap::server::command::{SearchKey, SearchSubject};
use mailapi_imap::server::session::Failure;
use mailapi_imap::server::{ObjectId, OrderFacts};

use super::failure::failure;
use super::order_facts;
use crate::MessageStore;
use crate::message_store::{FolderId, Inspected, MessageStoreError};

/// Returns the UIDs of the matching messages, ascending.
pub(super) async fn search(
    message_store: &MessageStore,
    folder: FolderId,
    key: SearchKey,
    max_texts: usize,
) -> Result<Vec<u32>, Failure> {
    let criteria = Criteria::new(message_store, folder, key, max_texts).await?;
    let look = move |message: &Inspected<'_>| Ok(criteria.matches(message)?.then(|| message.meta().state.uid));
    message_store.collect(folder, look).await.map_err(failure)
}

/// Returns whether the search reads texts of messages.
pub(super) fn reads_texts(key: &SearchKey) -> bool {
    !texts(key).is_empty()
}

/// Returns the facts of the matching messages, by ascending UID.
pub(super) async fn order(
    message_store: &MessageStore,
    folder: FolderId,
    key: SearchKey,
    max_texts: usize,
    with_header: bool,
) -> Result<Vec<OrderFacts>, Failure> {
    if message_store.folder_now(folder).await.map_err(failure)?.messages > MOST_ORDERED {
        return Err(Failure::Limit);
    }
    let criteria = Criteria::new(message_store, folder, key, max_texts).await?;
    let mut room = MOST_ORDERED_BYTES;
    let look = move |message: &Inspected<'_>| {
        if !criteria.matches(message)? {
            return Ok(None);
        }
        let facts = order_facts::of(message, with_header)?;
        room = room.checked_sub(order_facts::memory(&facts)).ok_or(MessageStoreError::TooMuchToOrder)?;
        Ok::<_, MessageStoreError>(Some(facts))
    };
    message_store.collect(folder, look).await.map_err(failure)
}

/// Messages of a folder that SORT and THREAD order: each usually takes some hundred bytes of memory until the response is
/// sent.
const MOST_ORDERED: u64 = 200_000;

/// Memory of the facts of one SORT or THREAD. A header can name many other messages, so each may take some kilobytes.
const MOST_ORDERED_BYTES: usize = 160 * 1024 * 1024;

/// A search that is ready to be compared with messages.
struct Criteria {
    key: SearchKey,
    /// For each indexed text, the messages that contain it anywhere.
    holders: HashMap<String, Vec<u32>>,
    now: mailapi_model::Timestamp,
}

impl Criteria {
    async fn new(
        message_store: &MessageStore,
        folder: FolderId,
        key: SearchKey,
        max_texts: usize,
    ) -> Result<Self, Failure> {
        let holders = holders(message_store, folder, &key, max_texts).await?;
        Ok(Self { key, holders, now: message_store.clock().now() })
    }

    fn matches(&self, message: &Inspected<'_>) -> Result<bool, MessageStoreError> {
        let candidate = Candidate::new(message, self);
        let matches = self.key.matches(&candidate);
        candidate.failure.into_inner().map_or(Ok(matches), Err)
    }
}

async fn holders(
    message_store: &MessageStore,
    folder: FolderId,
    key: &SearchKey,
    max_texts: usize,
) -> Result<HashMap<String, Vec<u32>>, Failure> {
    let wanted = texts(key);
    if wanted.iter().map(|wanted| wanted.text).collect::<HashSet<_>>().len() > max_texts {
        return Err(Failure::Limit);
    }
    // The index is queried once per text, not once per message.
    let mut holders = HashMap::new();
    for Wanted { text, .. } in wanted.into_iter().filter(|wanted| wanted.is_indexed) {
        if !holders.contains_key(text) {
            holders.insert(text.to_owned(), message_store.search_text(folder, text).await.map_err(failure)?);
        }
    }
    Ok(holders)
}

/// A search text.
struct Wanted<'a> {
    text: &'a str,
    /// Whether the index is queried for it. Header fields are not indexed; the messages are read.
    is_indexed: bool,
}

fn texts(key: &SearchKey) -> Vec<Wanted<'_>> {
    match key {
        SearchKey::Body(text) | SearchKey::Text(text) if !text.is_empty() => vec![Wanted { text, is_indexed: true }],
        SearchKey::Header { text, .. } if !text.is_empty() => vec![Wanted { text, is_indexed: false }],
        SearchKey::Not(key) => texts(key),
        SearchKey::Or(one, other) => texts(one).into_iter().chain(texts(other)).collect(),
        SearchKey::And(keys) => keys.iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// Returns whether header fields of this name contain addresses.
fn holds_addresses(name: &str) -> bool {
    const NAMES: [&str; 6] = ["FROM", "TO", "CC", "BCC", "SENDER", "REPLY-TO"];
    NAMES.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// A message that is compared with a search.
struct Candidate<'a, 'c> {
    message: &'a Inspected<'c>,
    criteria: &'a Criteria,
    searchable: OnceCell<String>,
    header: OnceCell<Vec<u8>>,
    failure: Cell<Option<MessageStoreError>>,
}

impl<'a, 'c> Candidate<'a, 'c> {
    fn new(message: &'a Inspected<'c>, criteria: &'a Criteria) -> Self {
        let (searchable, header) = (OnceCell::new(), OnceCell::new());
        Self { message, criteria, searchable, header, failure: Cell::new(None) }
    }

    fn searchable(&self) -> &str {
        self.searchable.get_or_init(|| self.or_nothing(self.message.searchable()))
    }

    fn header(&self) -> Header<'_> {
        Header::of(self.header.get_or_init(|| self.or_nothing(self.message.header())))
    }

    /// Returns the value read, or an empty one. The error is reported after the comparison.
    fn or_nothing<T: Default>(&self, read: Result<T, MessageStoreError>) -> T {
        read.unwrap_or_else(|error| {
            self.failure.set(Some(error));
            T::default()
        })
    }

    /// Returns whether a part outside of the searchable text contains `text`: an attached text, a forwarded
    /// message, or any text part but the first. `with_headers` includes the headers of parts.
    fn other_parts_hold(&self, text: &str, with_headers: bool) -> bool {
        let structure = self.or_nothing(self.message.structure());
        if !structure.attachments.iter().any(|attachment| may_hold_text(&attachment.info.content_type)) {
            return false;
        }
        let wanted = fold(text);
        any_text(&self.or_nothing(self.message.received()), with_headers, |line| fold(line).contains(&wanted))
    }

    fn holds(&self, text: &str) -> bool {
        self.criteria.holders.get(text).is_some_and(|uids| uids.binary_search(&self.uid()).is_ok())
    }
}

impl SearchSubject for Candidate<'_, '_> {
    fn uid(&self) -> u32 {
        self.message.meta().state.uid
    }

    fn flags(&self) -> &Flags {
        &self.message.meta().state.flags
    }

    fn modseq(&self) -> u64 {
        self.message.meta().state.modseq
    }

    fn email_id(&self) -> ObjectId {
        ObjectId::email(self.message.meta().content.object_id())
    }

    fn age(&self) -> u64 {
        let millis = self.criteria.now.as_millis().saturating_sub(self.message.meta().internal_date.as_millis());
        u64::try_from(millis / 1000).unwrap_or_default()
    }

    fn received(&self) -> Date {
        day(self.message.meta().internal_date)
    }

    fn saved(&self) -> Date {
        day(self.message.meta().saved_at)
    }

    fn sent(&self) -> Option<Date> {
        let (year, month, day) = self.header().day()?;
        Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?).ok()
    }

    fn size(&self) -> u64 {
        self.message.meta().size
    }

    fn header_contains(&self, name: &str, text: &str) -> bool {
        let header = self.header();
        if holds_addresses(name) && !text.is_empty() {
            // Comments do not belong to an address, and an address may be written in two ways.
            return header.people(name).iter().any(|people| contains(people, text));
        }
        header.texts(name).any(|value| text.is_empty() || contains(&value, text))
    }

    fn body_contains(&self, text: &str) -> bool {
        let body = || self.searchable().rsplit('\n').next().unwrap_or_default();
        text.is_empty() || (self.holds(text) && contains(body(), text)) || self.other_parts_hold(text, false)
    }

    fn text_contains(&self, text: &str) -> bool {
        text.is_empty()
            || self.holds(text)
            || self.header().lines().any(|line| contains(&line, text))
            || self.other_parts_hold(text, true)
    }
}

/// Returns the day in UTC.
fn day(at: mailapi_model::Timestamp) -> Date {
    Offset::UTC.to_datetime(order_facts::timestamp(at)).date()
}

fn contains(text: &str, wanted: &str) -> bool {
    fold(text).contains(&fold(wanted))
}
