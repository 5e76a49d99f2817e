//! The selected mailbox as reported to the client.
//!
//! Sequence numbers are positions in this view, which changes only when the change is reported. A message removed by
//! another session keeps its number until EXPUNGE may be sent (RFC 3501 section 7.4.1).

use std::collections::{BTreeSet, HashSet};

use crate::flag::{Flags, Keyword, SystemFlag};
use crate::mailbox::MailboxName;
use crate::server::ObjectId;
use crate::server::command::{MessageSet, UidRanges};
use crate::server::messages::{Listed, MessageList};
use crate::token::SyntaxError;

/// The UID and flags of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageEntry {
    /// Its UID.
    pub uid: u32,
    /// Its flags.
    pub flags: Flags,
    /// The modification sequence of its last change (RFC 7162).
    pub modseq: u64,
}

/// The state of a mailbox in the store at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderSnapshot {
    /// The host's key of the mailbox. Effects on messages return it, so that they survive a rename.
    pub folder: i64,
    /// UIDVALIDITY; changes when UIDs are reassigned.
    pub uid_validity: u32,
    /// The UID of the next message.
    pub uid_next: u32,
    /// Every message, UIDs ascending.
    pub messages: Vec<MessageEntry>,
    /// UIDs that are `\Recent` in this session; they need not exist as messages (RFC 3501 section 2.3.2).
    pub recent: UidRanges,
    /// The modification sequence of the mailbox's last change.
    pub highest_modseq: u64,
    /// The identifier of the mailbox (RFC 8474).
    pub mailbox_id: ObjectId,
}

/// Changes of the selected mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderUpdate {
    /// The whole state; the view finds the differences.
    Snapshot(FolderSnapshot),
    /// Candidates for changes since the last report; unchanged messages do no harm.
    Changes {
        /// New messages and messages whose flags changed, in any order.
        changed: Vec<MessageEntry>,
        /// UIDs of removed messages.
        removed: Vec<u32>,
        /// UIDs that are `\Recent` in this session; may repeat earlier ones.
        recent: UidRanges,
        /// The modification sequence of the mailbox's last change.
        highest_modseq: u64,
    },
    /// The mailbox was deleted, or its UIDVALIDITY changed.
    Gone,
}

/// An untagged response that reports a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Untagged {
    /// `* n EXPUNGE`, or the UID in `* VANISHED`
    Expunge {
        /// Sequence number.
        number: u32,
        /// UID.
        uid: u32,
    },
    /// `* n EXISTS`
    Exists(u32),
    /// `* n RECENT`
    Recent(u32),
    /// `* FLAGS (...)`: a new keyword is in use.
    Keywords(Vec<Keyword>),
    /// `* n FETCH (UID u FLAGS (...))`
    Flags {
        /// Sequence number.
        number: u32,
        /// UID.
        uid: u32,
        /// All flags of the message.
        flags: Flags,
        /// Whether the message is `\Recent`.
        is_recent: bool,
        /// The modification sequence of the change.
        modseq: u64,
    },
    /// `* n FETCH (UID u MODSEQ (m))`, once CONDSTORE is enabled: the flags were changed, and changed back.
    Modseq {
        /// Sequence number.
        number: u32,
        /// UID.
        uid: u32,
        /// The modification sequence of the last change.
        modseq: u64,
    },
}

/// The mailbox is no longer the selected one; the client must select again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Selected mailbox was deleted or renamed")]
pub struct Gone;

/// Number of keywords that a session announces for a mailbox. Cyrus allows 128.
const MOST_KEYWORDS: usize = 1_000;

/// The selected mailbox as reported to the client.
#[derive(Debug, Clone)]
pub struct SelectedView {
    mailbox: MailboxName,
    read_only: bool,
    folder: i64,
    mailbox_id: ObjectId,
    uid_validity: u32,
    uid_next: u32,
    messages: MessageList,
    /// Removed messages that the client still counts.
    vanished: BTreeSet<u32>,
    keywords: BTreeSet<Keyword>,
    recent: UidRanges,
    /// The client does not know `\Recent`.
    hides_recent: bool,
    /// The last reported number of `\Recent` messages.
    recent_count: u32,
    /// The modification sequence of the last change in the store.
    latest_modseq: u64,
    /// The one up to which the client was informed of every change.
    reported_modseq: u64,
    /// The saved result of a search (RFC 5182).
    saved: UidRanges,
}

impl SelectedView {
    /// Creates the view of a newly selected mailbox.
    pub fn new(mailbox: MailboxName, read_only: bool, snapshot: FolderSnapshot) -> Self {
        let FolderSnapshot { folder, uid_validity, uid_next, messages, recent, highest_modseq, mailbox_id } = snapshot;
        let vanished = BTreeSet::new();
        let mut view = Self {
            mailbox,
            read_only,
            folder,
            mailbox_id,
            uid_validity,
            uid_next,
            messages: MessageList::default(),
            vanished,
            keywords: BTreeSet::new(),
            recent,
            hides_recent: false,
            recent_count: 0,
            latest_modseq: highest_modseq,
            reported_modseq: highest_modseq,
            saved: UidRanges::default(),
        };
        // Messages with the same keywords share them.
        let mut seen = HashSet::new();
        for keywords in messages.iter().map(|entry| entry.flags.keywords()) {
            if seen.insert(keywords.as_ptr()) {
                view.note_keywords(keywords);
            }
        }
        view.messages = messages.into_iter().collect();
        view.recent_count = view.count_recent();
        view
    }

    /// The name used to select it.
    pub fn mailbox(&self) -> &MailboxName {
        &self.mailbox
    }

    /// Whether EXAMINE selected the mailbox.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The host's key for the mailbox.
    pub fn folder(&self) -> i64 {
        self.folder
    }

    /// The identifier of the mailbox.
    pub(crate) fn mailbox_id(&self) -> ObjectId {
        self.mailbox_id
    }

    /// The UIDVALIDITY.
    pub fn uid_validity(&self) -> u32 {
        self.uid_validity
    }

    /// The next UID at the time of selection.
    pub fn uid_next(&self) -> u32 {
        self.uid_next
    }

    /// The modification sequence up to which the client was informed of every change. EXPUNGE responses that wait hold
    /// it back, or a client that reconnects would miss them.
    pub(crate) fn highest_modseq(&self) -> u64 {
        self.reported_modseq
    }

    /// The modification sequence of a message, as last reported.
    pub(crate) fn modseq_of(&self, uid: u32) -> Option<u64> {
        self.message(uid).map(|message| message.modseq)
    }

    /// The messages changed after a modification sequence, with their sequence numbers.
    pub(crate) fn changed_since(&self, modseq: u64) -> impl Iterator<Item = (u32, MessageEntry)> {
        let changed = (1..).zip(self.messages.iter()).filter(move |(_, message)| message.modseq > modseq);
        changed.map(|(number, message)| (number, message.to_entry()))
    }

    /// The UIDs of the ranges that no message of this view has. A message just removed is not among them until EXPUNGE
    /// reports it.
    pub(crate) fn absent(&self, ranges: &UidRanges) -> UidRanges {
        ranges.without(&self.uids_in(ranges))
    }

    /// The number of messages reported to the client.
    pub fn exists(&self) -> u32 {
        self.messages.len()
    }

    /// The UIDs that are `\Recent` in this session.
    pub fn recent(&self) -> &UidRanges {
        &self.recent
    }

    /// Whether a message is `\Recent` in this session.
    pub fn is_recent(&self, uid: u32) -> bool {
        self.recent.contains(uid)
    }

    /// Reports no message as `\Recent` from now on: IMAP4rev2 has no such flag (RFC 9051 appendix E).
    pub(crate) fn hide_recent(&mut self) {
        self.hides_recent = true;
        (self.recent, self.recent_count) = (UidRanges::default(), 0);
    }

    fn set_recent(&mut self, recent: UidRanges) {
        if !self.hides_recent {
            self.recent = recent;
        }
    }

    /// The number of `\Recent` messages reported to the client.
    pub(crate) fn recent_count(&self) -> u32 {
        self.recent_count
    }

    fn count_recent(&self) -> u32 {
        let counts = self.recent.ranges().iter().map(|&(from, to)| self.messages.positions(from, to).len());
        u32::try_from(counts.sum::<usize>()).unwrap_or(u32::MAX)
    }

    /// The sequence number of the first message without `\Seen`.
    pub(crate) fn first_unseen(&self) -> Option<u32> {
        let mut numbered = (1..).zip(self.messages.iter());
        numbered.find(|(_, message)| !message.flags.contains(SystemFlag::Seen)).map(|(number, _)| number)
    }

    /// All keywords in use since the selection.
    pub fn keywords(&self) -> impl Iterator<Item = &Keyword> {
        self.keywords.iter()
    }

    fn message(&self, uid: u32) -> Option<Listed<'_>> {
        self.messages.get(self.messages.position(uid)?)
    }

    /// The sequence number of a message.
    pub fn number_of(&self, uid: u32) -> Option<u32> {
        self.messages.position(uid).map(number_at)
    }

    /// The flags last reported to the client.
    pub fn flags_of(&self, uid: u32) -> Option<&Flags> {
        self.message(uid).map(|message| message.flags)
    }

    /// Records flags that the client is about to learn. The returned response must be sent first.
    pub fn set_flags(&mut self, uid: u32, flags: Flags, modseq: u64) -> Option<Untagged> {
        let at = self.messages.position(uid)?;
        let new = self.note_keywords(flags.keywords());
        self.messages.set(at, flags, modseq);
        new.then(|| self.all_keywords())
    }

    /// Records the keywords; returns whether one is new. Those beyond the limit are not announced: a client learns them from
    /// the messages that have them.
    fn note_keywords(&mut self, keywords: &[Keyword]) -> bool {
        let before = self.keywords.len();
        for keyword in keywords {
            if self.keywords.len() < MOST_KEYWORDS && !self.keywords.contains(keyword) {
                self.keywords.insert(keyword.clone());
            }
        }
        self.keywords.len() > before
    }

    fn all_keywords(&self) -> Untagged {
        Untagged::Keywords(self.keywords.iter().cloned().collect())
    }

    /// Resolves a set to UIDs. A sequence number without a message is a client error (RFC 3501 section 9, note on
    /// `seq-number`); a UID without a message is ignored.
    pub fn resolve(&self, messages: &MessageSet) -> Result<UidRanges, SyntaxError> {
        if messages.set.is_saved() {
            return Ok(self.saved.clone());
        }
        if messages.uid {
            let largest = self.messages.last_uid().unwrap_or_default();
            return Ok(UidRanges::new(messages.set.resolve(largest)));
        }
        let ranges = messages.set.resolve(self.exists());
        let uid_of = |number: u32| self.uid_of(number);
        let uids: Option<Vec<_>> = ranges.into_iter().map(|(from, to)| Some((uid_of(from)?, uid_of(to)?))).collect();
        uids.map(UidRanges::new).ok_or(SyntaxError("no such message"))
    }

    /// Resolves a set of SEARCH to UIDs; a number without a message matches nothing.
    pub fn existing(&self, messages: &MessageSet) -> UidRanges {
        if messages.set.is_saved() {
            return self.saved.clone();
        }
        let exists = self.exists();
        if messages.uid || exists == 0 {
            let largest = self.messages.last_uid().unwrap_or_default();
            let ranges = if messages.uid { messages.set.resolve(largest) } else { Vec::new() };
            return UidRanges::new(ranges);
        }
        let ranges = messages.set.resolve(exists).into_iter();
        UidRanges::new(
            ranges.filter_map(|(from, to)| Some((self.uid_of(from)?, self.uid_of(to.min(exists))?))).collect(),
        )
    }

    fn uid_of(&self, number: u32) -> Option<u32> {
        self.messages.get(number.checked_sub(1)?).map(|message| message.uid)
    }

    /// Saves the result of a search, as ascending UIDs.
    pub(crate) fn save(&mut self, uids: &[u32]) {
        self.saved = UidRanges::from_ranges(uids.iter().map(|&uid| (uid, uid)).collect());
    }

    /// The UIDs of this view within the ranges, ascending.
    pub fn uids_in(&self, ranges: &UidRanges) -> Vec<u32> {
        let mut uids = Vec::new();
        for &(from, to) in ranges.ranges() {
            uids.extend(self.messages.uids(self.messages.positions(from, to)));
        }
        uids
    }

    /// Applies changes and returns the responses to send. EXPUNGE responses come first, if they are allowed now (see
    /// [`Self::take_expunged`]). The others are always allowed.
    pub fn sync(&mut self, update: Option<FolderUpdate>, may_expunge: bool) -> Result<Vec<Untagged>, Gone> {
        let mut changed = Vec::new();
        match update {
            None => {}
            Some(FolderUpdate::Gone) => return Err(Gone),
            Some(FolderUpdate::Changes { changed: present, removed, recent, highest_modseq }) => {
                // A message may be removed between the host's two queries.
                let gone: BTreeSet<u32> = removed.iter().copied().collect();
                changed = present;
                changed.retain(|entry| !gone.contains(&entry.uid));
                self.expunge(removed);
                let mut all = std::mem::take(&mut self.recent);
                all.append(&recent);
                self.set_recent(all);
                self.latest_modseq = highest_modseq;
            }
            Some(FolderUpdate::Snapshot(snapshot)) => {
                if snapshot.folder != self.folder || snapshot.uid_validity != self.uid_validity {
                    return Err(Gone);
                }
                // A snapshot names no removed messages: they are those that it lacks.
                self.expunge(self.missing_from(&snapshot.messages));
                changed = snapshot.messages;
                self.set_recent(snapshot.recent);
                self.latest_modseq = snapshot.highest_modseq;
            }
        }
        let mut news = if may_expunge { self.take_expunged() } else { Vec::new() };
        news.extend(self.merge(changed));
        if self.vanished.is_empty() {
            self.reported_modseq = self.latest_modseq;
        }
        Ok(news)
    }

    fn missing_from(&self, present: &[MessageEntry]) -> Vec<u32> {
        let is_missing = |uid: &u32| present.binary_search_by_key(uid, |entry| entry.uid).is_err();
        self.messages.iter().map(|entry| entry.uid).filter(is_missing).collect()
    }

    fn merge(&mut self, changed: Vec<MessageEntry>) -> Vec<Untagged> {
        let mut flags = Vec::new();
        let mut added = Vec::new();
        let (mut keywords, mut seen) = (false, HashSet::new());
        let largest = self.messages.last_uid().unwrap_or_default();
        for entry in changed {
            let known = self.messages.position(entry.uid);
            // UIDs of new messages are higher than all others: this one was removed already.
            if known.is_none() && entry.uid <= largest {
                continue;
            }
            if let Some(at) = known
                && let Some(before) = self.messages.get(at)
                && *before.flags == entry.flags
            {
                if before.modseq != entry.modseq {
                    let MessageEntry { uid, flags: same, modseq } = entry;
                    flags.push(Untagged::Modseq { number: number_at(at), uid, modseq });
                    self.messages.set(at, same, modseq);
                }
                continue;
            }
            if seen.insert(entry.flags.keywords().as_ptr()) {
                keywords |= self.note_keywords(entry.flags.keywords());
            }
            match known {
                None => added.push(entry),
                Some(at) => {
                    let (number, uid, is_recent) = (number_at(at), entry.uid, self.is_recent(entry.uid));
                    let modseq = entry.modseq;
                    flags.push(Untagged::Flags { number, uid, flags: entry.flags.clone(), is_recent, modseq });
                    self.messages.set(at, entry.flags, modseq);
                }
            }
        }
        let mut news = Vec::new();
        // Announce a new keyword before a FETCH response uses it.
        if keywords {
            news.push(self.all_keywords());
        }
        if !added.is_empty() {
            added.sort_by_key(|entry| entry.uid);
            added.dedup_by_key(|entry| entry.uid);
            self.messages.extend(added);
            news.push(Untagged::Exists(self.exists()));
        }
        let recent = self.count_recent();
        if recent != self.recent_count {
            self.recent_count = recent;
            news.push(Untagged::Recent(recent));
        }
        news.extend(flags);
        news
    }

    /// Marks messages as removed; the client still counts them.
    pub fn expunge(&mut self, uids: impl IntoIterator<Item = u32>) {
        for uid in uids {
            if self.messages.position(uid).is_some() {
                self.vanished.insert(uid);
            }
        }
    }

    /// Removes the marked messages from the view. Only when EXPUNGE is allowed: not during FETCH, STORE or
    /// SEARCH, and not without a running command (RFC 3501 section 7.4.1).
    fn take_expunged(&mut self) -> Vec<Untagged> {
        let vanished = std::mem::take(&mut self.vanished);
        // Highest number first, so that the remaining numbers stay valid.
        let expunge = |&uid: &u32| self.number_of(uid).map(|number| Untagged::Expunge { number, uid });
        let numbers: Vec<_> = vanished.iter().rev().filter_map(expunge).collect();
        if !numbers.is_empty() {
            self.messages.retain(|uid| !vanished.contains(&uid));
        }
        numbers
    }
}

const fn number_at(at: u32) -> u32 {
    at + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(uid: u32, flags: &str) -> MessageEntry {
        MessageEntry { uid, flags: Flags::from_words(flags.split_whitespace()), modseq: 1 }
    }

    fn snapshot(messages: &[(u32, &str)]) -> FolderSnapshot {
        let messages = messages.iter().map(|&(uid, flags)| entry(uid, flags)).collect();
        let recent = UidRanges::default();
        let mailbox_id = ObjectId::mailbox(9);
        FolderSnapshot { folder: 1, uid_validity: 9, uid_next: 100, messages, recent, highest_modseq: 1, mailbox_id }
    }

    fn view(messages: &[(u32, &str)]) -> SelectedView {
        SelectedView::new(MailboxName::inbox(), false, snapshot(messages))
    }

    fn expunge(number: u32, uid: u32) -> Untagged {
        Untagged::Expunge { number, uid }
    }

    fn set(uid: bool, text: &str) -> MessageSet {
        MessageSet { uid, set: text.parse().unwrap() }
    }

    #[test]
    fn numbers_that_do_not_exist_are_an_error_and_uids_are_not() {
        let three = view(&[(3, ""), (5, ""), (9, "")]);
        for text in ["4", "1:4", "2,7"] {
            assert!(three.resolve(&set(false, text)).is_err(), "{text}");
        }
        assert!(view(&[]).resolve(&set(false, "*")).is_err());
        assert!(view(&[]).resolve(&set(false, "1:*")).is_err());
        let uids = |uid, text| three.uids_in(&three.resolve(&set(uid, text)).unwrap());
        assert_eq!(uids(false, "2:*"), [5, 9]);
        assert_eq!(uids(true, "4:8"), [5]);
        assert_eq!(uids(true, "100:*"), [9]);
        assert!(view(&[]).uids_in(&view(&[]).resolve(&set(true, "1:*")).unwrap()).is_empty());
    }

    #[test]
    fn a_search_finds_nothing_under_numbers_that_do_not_exist() {
        let three = view(&[(3, ""), (5, ""), (9, "")]);
        let uids = |uid, text| three.uids_in(&three.existing(&set(uid, text)));
        assert_eq!(uids(false, "1000"), []);
        assert_eq!(uids(false, "2:1000"), [5, 9]);
        assert_eq!(uids(false, "1,7:*"), [3, 9]);
        assert_eq!(uids(true, "1000"), []);
        for text in ["*", "1:*", "7"] {
            assert!(view(&[]).uids_in(&view(&[]).existing(&set(false, text))).is_empty(), "{text}");
        }
    }

    #[test]
    fn removed_messages_keep_their_number_until_expunged() {
        let mut view = view(&[(3, ""), (5, ""), (9, "")]);
        let update = FolderUpdate::Snapshot(snapshot(&[(5, ""), (12, "")]));
        assert_eq!(view.sync(Some(update), false), Ok(vec![Untagged::Exists(4)]));
        assert_eq!(view.number_of(5), Some(2));
        assert_eq!(view.sync(None, true), Ok(vec![expunge(3, 9), expunge(1, 3)]));
        assert_eq!(view.number_of(12), Some(2));
        assert_eq!(view.sync(None, true), Ok(vec![]));
    }

    #[test]
    fn a_waiting_expunge_holds_the_reported_modseq_back() {
        let mut view = view(&[(3, ""), (5, "")]);
        let update = changes(vec![entry(5, "\\Seen")], vec![3], UidRanges::default());
        view.sync(update, false).unwrap();
        assert_eq!(view.highest_modseq(), 1);
        view.sync(None, true).unwrap();
        assert_eq!(view.highest_modseq(), 2);
    }

    #[test]
    fn removed_messages_come_before_the_new_count() {
        let mut view = view(&[(3, ""), (5, "")]);
        let update = FolderUpdate::Snapshot(snapshot(&[(5, ""), (12, "")]));
        let news = [expunge(1, 3), Untagged::Exists(2)];
        assert_eq!(view.sync(Some(update), true), Ok(news.to_vec()));
    }

    fn changes(changed: Vec<MessageEntry>, removed: Vec<u32>, recent: UidRanges) -> Option<FolderUpdate> {
        Some(FolderUpdate::Changes { changed, removed, recent, highest_modseq: 2 })
    }

    #[test]
    fn a_message_that_came_and_went_is_not_shown() {
        let mut view = view(&[(3, "")]);
        let news = view.sync(changes(vec![entry(4, "")], vec![4], UidRanges::of(4..5)), true).unwrap();
        assert_eq!(news, []);
        assert_eq!((view.exists(), view.recent_count()), (1, 0));
    }

    #[test]
    fn recent_messages_are_counted_and_marked() {
        let recent = FolderSnapshot { recent: UidRanges::of(5..9), ..snapshot(&[(3, ""), (5, ""), (8, "")]) };
        let mut view = SelectedView::new(MailboxName::inbox(), false, recent);
        assert_eq!((view.recent_count(), view.is_recent(3), view.is_recent(8)), (2, false, true));
        let news =
            view.sync(changes(vec![entry(9, ""), entry(5, "\\Seen")], vec![], UidRanges::of(9..10)), true).unwrap();
        let flags = Untagged::Flags { number: 2, uid: 5, flags: entry(5, "\\Seen").flags, is_recent: true, modseq: 1 };
        assert_eq!(news, [Untagged::Exists(4), Untagged::Recent(3), flags]);
        assert_eq!(view.recent().ranges(), [(5, 9)], "adjacent ranges are merged");
        let news = view.sync(changes(vec![], vec![8], UidRanges::default()), true).unwrap();
        assert_eq!(news, [expunge(3, 8), Untagged::Recent(2)]);
    }

    #[test]
    fn flags_are_reported_once() {
        let mut view = view(&[(3, "\\Seen")]);
        let update = changes(vec![entry(3, "\\Seen $Junk")], vec![], UidRanges::default());
        let news = view.sync(update.clone(), false).unwrap();
        assert!(matches!(&news[..], [Untagged::Keywords(_), Untagged::Flags { number: 1, uid: 3, .. }]));
        assert_eq!(view.sync(update, false).unwrap(), []);
    }

    #[test]
    fn flags_that_were_changed_back_have_a_new_modseq() {
        let mut view = view(&[(3, ""), (5, "\\Seen")]);
        let changed = MessageEntry { modseq: 7, ..entry(5, "\\Seen") };
        let update = changes(vec![entry(3, ""), changed], vec![], UidRanges::default());
        let news = view.sync(update.clone(), false).unwrap();
        assert_eq!(news, [Untagged::Modseq { number: 2, uid: 5, modseq: 7 }]);
        assert_eq!(view.modseq_of(5), Some(7));
        assert_eq!(view.sync(update, false).unwrap(), []);
    }

    #[test]
    fn another_uidvalidity_means_another_mailbox() {
        let other = FolderSnapshot { uid_validity: 10, ..snapshot(&[]) };
        assert_eq!(view(&[]).sync(Some(FolderUpdate::Snapshot(other)), false), Err(Gone));
    }

    proptest! {
        /// A client that applies all responses ends with the state of the mailbox.
        #[test]
        fn the_client_keeps_up(steps in prop::collection::vec(
            (prop::collection::vec(0usize..20, 0..4), 0u32..4, any::<bool>()), 1..12,
        )) {
            let mut mailbox = snapshot(&[(1, ""), (2, ""), (3, "")]);
            let mut view = SelectedView::new(MailboxName::inbox(), false, mailbox.clone());
            let mut count = view.exists();
            for (removals, additions, may_expunge) in steps {
                for at in removals {
                    if at < mailbox.messages.len() {
                        mailbox.messages.remove(at);
                    }
                }
                for _ in 0..additions {
                    mailbox.messages.push(entry(mailbox.uid_next, ""));
                    mailbox.uid_next += 1;
                }
                for change in view.sync(Some(FolderUpdate::Snapshot(mailbox.clone())), may_expunge).unwrap() {
                    match change {
                        Untagged::Exists(exists) => { prop_assert!(exists >= count); count = exists; }
                        Untagged::Expunge { number, .. } => { prop_assert!(number >= 1 && number <= count); count -= 1; }
                        _ => {}
                    }
                }
                prop_assert_eq!(count, view.exists());
            }
            view.take_expunged();
            let left: Vec<_> = view.messages.iter().map(Listed::to_entry).collect();
            prop_assert_eq!(left, mailbox.messages);
        }
    }
}
