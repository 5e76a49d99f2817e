//! Lists one page of a folder, or finds that it is unchanged.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use mailapi_backend::{MessageSummary, Validator};
use mailapi_imap::client::{BodyStructure, Code, Command, FetchAttribute, FetchedMessage, Untagged};
use mailapi_model::{EmailAddress, FolderName, Listed, Page};

use super::settings::MailboxSettings;
use super::summaries::{self, FolderKey, Summaries};
use crate::imap_pool::{ImapConnection, ImapError, Job, OpenFolder};

/// Lists the newest messages after an offset. The newest message has the highest UID and sequence number. So a page
/// is a range of sequence numbers from the end, whatever the folder's size.
pub(super) struct ListPage<'a> {
    pub(super) mailbox: &'a EmailAddress,
    pub(super) folder: &'a FolderName,
    pub(super) page: Page,
    pub(super) summaries: &'a Summaries,
    pub(super) settings: &'a MailboxSettings,
    /// The validator of the page that the caller has.
    pub(super) seen: Option<Validator>,
}

/// Result of a conditional request, as [`mailapi_backend::PageView`]. Concurrent requests share it.
#[derive(Debug, Clone)]
pub(super) enum Shown {
    Unchanged,
    Now {
        listed: Arc<Listed<MessageSummary>>,
        /// `None` if a change could not be detected.
        validator: Option<Validator>,
    },
}

impl Job for ListPage<'_> {
    type Output = Shown;

    async fn run(&self, connection: &mut ImapConnection) -> Result<Shown, ImapError> {
        let mut heard = None;
        if connection.can(NUMBERS_CHANGES)
            && let Some(open) = connection.opened(self.folder).cloned()
        {
            if let Some(shown) = self.show(connection, &open, News::Behind).await? {
                return Ok(shown);
            }
            heard = connection.opened(self.folder).filter(|now| now.validator() != open.validator()).cloned();
        }
        for _ in 0..TRIES {
            let open = match heard.take() {
                Some(open) => open,
                None => connection.open(self.folder).await?,
            };
            if let Some(shown) = self.show(connection, &open, News::Before).await? {
                return Ok(shown);
            }
        }
        Err(ImapError::unavailable("the server omitted messages of a page"))
    }
}

/// How often a page is fetched if data is missing: a message may be removed during the fetch.
const TRIES: usize = 2;

/// When the updates of the folder are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    /// Before the page.
    Before,
    /// After the page, in the same round trip. The page counts only if there were none.
    Behind,
}

/// A server may send no changed flags on its own (RFC 3501 section 5.2). One with CONDSTORE (RFC 7162) sends them, at
/// the latest in response to NOOP. From other servers the flags are fetched each time.
const NUMBERS_CHANGES: &str = "CONDSTORE";

/// Returns the first and last sequence number of a page.
fn range(exists: u32, page: Page) -> Option<(u32, u32)> {
    let last = u64::from(exists).checked_sub(page.offset()).filter(|&last| last > 0)?;
    let first = (last + 1).saturating_sub(u64::from(page.limit())).max(1);
    Some((u32::try_from(first).ok()?, u32::try_from(last).ok()?))
}

/// Messages, and the number of earlier responses that contained only their flags. `None` if data is missing.
type Fetched = Option<(Vec<MessageSummary>, u64)>;

/// The response code with which a server refuses to fetch an expunged message (RFC 5530 section 3).
const EXPUNGE_ISSUED: &str = "EXPUNGEISSUED";

impl ListPage<'_> {
    /// Returns the page of the open folder, or `None` if data is missing. With [`News::Behind`] it also returns
    /// `None` if updates arrived, or if nothing needs to be fetched.
    async fn show(
        &self,
        connection: &mut ImapConnection,
        open: &OpenFolder,
        news: News,
    ) -> Result<Option<Shown>, ImapError> {
        let total = u64::from(open.exists);
        let empty = || Shown::Now { listed: Arc::new(Listed { total, items: Vec::new() }), validator: None };
        let Some((first, last)) = range(open.exists, self.page) else {
            return Ok((news == News::Before).then(empty));
        };
        if self.seen == Some(open.validator()) {
            return Ok((news == News::Before).then_some(Shown::Unchanged));
        }
        let key = Arc::new(FolderKey {
            mailbox: self.mailbox.clone(),
            folder: self.folder.clone(),
            uid_validity: open.uid_validity,
        });
        let fetched = if self.summaries.knows(&key) {
            self.by_flags(connection, &key, (first, last), news).await
        } else {
            self.in_full(connection, &key, (first, last), news).await
        };
        let fetched = match fetched {
            // A message of the page may have been expunged.
            Err(ImapError::Refused(_)) if news == News::Behind => return Ok(None),
            Err(ImapError::Refused(status)) if status.code == Some(Code::Other(EXPUNGE_ISSUED.to_owned())) => None,
            fetched => fetched?,
        };
        let Some((mut items, asked_before)) = fetched else { return Ok(None) };
        items.sort_unstable_by_key(|item| std::cmp::Reverse(item.uid));
        items.dedup_by_key(|item| item.uid);
        if items.len() as u64 != u64::from(last - first) + 1 {
            return Ok(None);
        }
        let listed = Arc::new(Listed { total, items });
        // An unsolicited FETCH for a message on this page looks like one response too many.
        let answers = listed.items.len() as u64 + asked_before;
        // An update that arrived with the page may be newer than the page, so the page has no validator.
        let expected = open.validator_after(answers);
        let now = connection.folder().map(OpenFolder::validator);
        let validator = now.filter(|now| *now == expected && connection.can(NUMBERS_CHANGES));
        Ok((news == News::Before || validator.is_some()).then_some(Shown::Now { listed, validator }))
    }

    async fn in_full(
        &self,
        connection: &mut ImapConnection,
        key: &Arc<FolderKey>,
        (first, last): (u32, u32),
        news: News,
    ) -> Result<Fetched, ImapError> {
        let mut attributes = summaries::attributes(self.settings);
        attributes.push(FetchAttribute::Flags);
        let (mut received, mut long) = (BTreeMap::<u32, MessageSummary>::new(), BTreeSet::new());
        let fetched = fetch(connection, Command::fetch(first, last, &attributes), news, |untagged| {
            if let Untagged::TooLong(number) = untagged {
                long.extend(Some(number).filter(|number| (first..=last).contains(number)));
            }
            let Some((mut message, number)) = of_page(untagged, (first, last)) else { return };
            let flags = flags_of(&mut message);
            if message.has_contents() {
                let summary = flags.and_then(|flags| summaries::summary(*message, flags));
                received.extend(summary.map(|summary| (number, summary)));
            } else if let (Some(flags), Some(summary)) = (flags, received.get_mut(&number)) {
                // The last response has the newest flags.
                summary.flags = flags;
            }
        });
        fetched.await?;
        if !long.is_empty() && news == News::Behind {
            // The updates may have shifted the sequence numbers.
            return Ok(None);
        }
        for number in long {
            received.extend(self.without_structure(connection, number).await?.map(|summary| (number, summary)));
        }
        let items: Vec<_> = received.into_values().collect();
        self.summaries.put(key, &items);
        Ok(Some((items, 0)))
    }

    /// Fetches a message whose structure is too long to parse.
    async fn without_structure(
        &self,
        connection: &mut ImapConnection,
        number: u32,
    ) -> Result<Option<MessageSummary>, ImapError> {
        let mut attributes = summaries::attributes_without_structure(self.settings);
        attributes.push(FetchAttribute::Flags);
        let mut found = None;
        let fetched = connection.run(Command::fetch(number, number, &attributes), |untagged| {
            let Some((mut message, _)) = of_page(untagged, (number, number)) else { return };
            let Some(flags) = flags_of(&mut message).filter(|_| message.has_contents()) else { return };
            message.body_structure = Some(BodyStructure::Opaque);
            found = summaries::summary(*message, flags);
        });
        fetched.await?;
        Ok(found)
    }

    /// Fetches only the flags, and the rest of messages that are not cached.
    async fn by_flags(
        &self,
        connection: &mut ImapConnection,
        key: &Arc<FolderKey>,
        (first, last): (u32, u32),
        news: News,
    ) -> Result<Fetched, ImapError> {
        let mut received: BTreeMap<u32, (Option<u32>, Vec<String>)> = BTreeMap::new();
        let fetched = fetch(connection, Command::fetch(first, last, &[FetchAttribute::Flags]), news, |untagged| {
            let Some((mut message, number)) = of_page(untagged, (first, last)) else { return };
            let Some(flags) = flags_of(&mut message) else { return };
            // The last response has the newest flags; unsolicited ones may omit the UID.
            let one = received.entry(number).or_default();
            *one = (message.uid.or(one.0), flags);
        });
        fetched.await?;
        let received = received.into_values().map(|(uid, flags)| Some((uid?, flags)));
        let Some(mut missing): Option<HashMap<u32, Vec<String>>> = received.collect() else { return Ok(None) };
        let mut items = Vec::with_capacity(missing.len());
        missing.retain(|uid, flags| {
            let remembered = self.summaries.get(key, *uid, flags.clone());
            let is_missing = remembered.is_none();
            items.extend(remembered);
            is_missing
        });
        let uids: Vec<u32> = missing.keys().copied().collect();
        for uids in uids.chunks(self.settings.uids_per_command.max(1)) {
            let (known, mut awaited) = (items.len(), uids.iter().copied().collect::<BTreeSet<u32>>());
            let mut is_too_long = false;
            let command = Command::uid_fetch(uids, &summaries::attributes(self.settings));
            let fetched = connection.run(command, |untagged| match untagged {
                Untagged::TooLong(_) => is_too_long = true,
                Untagged::Fetch(message) => items.extend(awaited_summary(*message, &missing, &mut awaited)),
                _ => {}
            });
            fetched.await?;
            if is_too_long {
                let uids: Vec<u32> = awaited.iter().copied().collect();
                let command = Command::uid_fetch(&uids, &summaries::attributes_without_structure(self.settings));
                let fetched = connection.run(command, |untagged| {
                    let Untagged::Fetch(mut message) = untagged else { return };
                    message.body_structure = Some(BodyStructure::Opaque);
                    items.extend(awaited_summary(*message, &missing, &mut awaited));
                });
                fetched.await?;
            }
            self.summaries.put(key, &items[known..]);
        }
        Ok(Some((items, missing.len() as u64)))
    }
}

/// Returns the summary of a requested message, once: a server may send any number of responses.
fn awaited_summary(
    message: FetchedMessage,
    flags: &HashMap<u32, Vec<String>>,
    awaited: &mut BTreeSet<u32>,
) -> Option<MessageSummary> {
    let uid = message.uid.filter(|uid| awaited.contains(uid))?;
    let summary = summaries::summary(message, flags.get(&uid)?.clone())?;
    awaited.remove(&uid);
    Some(summary)
}

/// Returns a fetched message if it is on the page: a server may send others.
fn of_page(untagged: Untagged, (first, last): (u32, u32)) -> Option<(Box<FetchedMessage>, u32)> {
    let Untagged::Fetch(message) = untagged else { return None };
    let number = message.sequence;
    (first..=last).contains(&number).then_some((message, number))
}

async fn fetch(
    connection: &mut ImapConnection,
    command: Command,
    news: News,
    each: impl FnMut(Untagged) + Send,
) -> Result<(), ImapError> {
    match news {
        News::Before => connection.run(command, each).await?,
        News::Behind => connection.run_before_news(command, each).await?,
    };
    Ok(())
}

fn flags_of(message: &mut FetchedMessage) -> Option<Vec<String>> {
    message.flags.take().map(summaries::shown_flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_cover_a_folder_from_its_end() {
        assert_eq!(range(0, Page::new(50, 0)), None);
        assert_eq!(range(5, Page::new(2, 5)), None);
        assert_eq!(range(5, Page::new(2, u64::MAX)), None);
        assert_eq!(range(5, Page::new(2, 0)), Some((4, 5)));
        assert_eq!(range(5, Page::new(2, 4)), Some((1, 1)));
        assert_eq!(range(5, Page::new(50, 1)), Some((1, 4)));
        assert_eq!(range(u32::MAX, Page::new(200, 0)), Some((u32::MAX - 199, u32::MAX)));
    }
}
