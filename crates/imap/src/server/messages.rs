//! The messages of a view, with little memory for each.

use std::ops::Range;

use super::view::MessageEntry;
use crate::flag::Flags;

/// Most runs of a block. A change moves the runs of its block, so this bounds what it costs.
const MOST_RUNS: usize = 512;

/// Messages with ascending UIDs, by position.
///
/// Neighbours with equal flags form one run if their UIDs and modification sequences follow one another. So mail that
/// arrives while a session waits takes the memory of one message, not of all.
#[derive(Debug, Clone, Default)]
pub(super) struct MessageList {
    blocks: Vec<Block>,
}

/// Neighbouring runs, at least one.
#[derive(Debug, Clone)]
struct Block {
    /// The position of the first message.
    at: u32,
    len: u32,
    runs: Vec<Run>,
}

/// Neighbours that differ only by their UID and modification sequence.
#[derive(Debug, Clone)]
struct Run {
    /// The position of the first message in its block.
    at: u32,
    uid: u32,
    modseq: u64,
    /// Whether each modification sequence is one above the previous one, as messages arrive. Otherwise all are equal, as
    /// after a command that changes all.
    ascends: bool,
    flags: Flags,
}

/// One message of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listed<'a> {
    pub(super) uid: u32,
    pub(super) flags: &'a Flags,
    pub(super) modseq: u64,
}

impl Listed<'_> {
    pub(super) fn to_entry(self) -> MessageEntry {
        MessageEntry { uid: self.uid, flags: self.flags.clone(), modseq: self.modseq }
    }
}

impl Run {
    fn message(&self, offset: u32) -> Listed<'_> {
        let modseq = if self.ascends { self.modseq + u64::from(offset) } else { self.modseq };
        Listed { uid: self.uid + offset, flags: &self.flags, modseq }
    }

    /// Adds `next` if it continues these `len` messages. Returns whether it does.
    fn takes(&mut self, len: u32, next: Listed<'_>) -> bool {
        // Without a sum of UIDs, which could overflow.
        if *next.flags != self.flags || next.uid - self.uid != len {
            return false;
        }
        let difference = next.modseq.checked_sub(self.modseq);
        // The second message decides how the run goes on.
        let ascends = if len == 1 { difference == Some(1) } else { self.ascends };
        let fits = difference == Some(if ascends { len.into() } else { 0 });
        if fits {
            self.ascends = ascends;
        }
        fits
    }
}

impl Block {
    fn first_uid(&self) -> u32 {
        self.runs[0].uid
    }

    fn run_at(&self, offset: u32) -> usize {
        // The first run begins at 0.
        self.runs.partition_point(|run| run.at <= offset) - 1
    }

    fn len_of(&self, index: usize) -> u32 {
        self.runs.get(index + 1).map_or(self.len, |next| next.at) - self.runs[index].at
    }

    fn get(&self, offset: u32) -> Listed<'_> {
        let run = &self.runs[self.run_at(offset)];
        run.message(offset - run.at)
    }

    /// Returns the number of messages with lower UIDs, if the first one has none higher than `uid`.
    fn first_from(&self, uid: u32) -> u32 {
        let index = self.runs.partition_point(|run| run.uid <= uid) - 1;
        let run = &self.runs[index];
        run.at + (uid - run.uid).min(self.len_of(index))
    }

    fn uids(&self, offsets: Range<u32>) -> impl Iterator<Item = u32> {
        let Range { start, end } = offsets;
        let first = self.run_at(start);
        let runs = (first..).zip(&self.runs[first..]).take_while(move |(_, run)| run.at < end);
        runs.flat_map(move |(index, run)| {
            let end = end.min(run.at + self.len_of(index));
            (run.at.max(start)..end).map(|at| run.uid + (at - run.at))
        })
    }

    fn iter(&self) -> impl Iterator<Item = Listed<'_>> {
        let runs = self.runs.iter().enumerate();
        runs.flat_map(|(index, run)| (0..self.len_of(index)).map(|offset| run.message(offset)))
    }

    /// Adds a message, unless it needs a run more than the block may have. Then it is returned.
    fn push(&mut self, entry: MessageEntry) -> Option<MessageEntry> {
        let MessageEntry { uid, ref flags, modseq } = entry;
        let last = self.runs.len() - 1;
        let len = self.len_of(last);
        if !self.runs[last].takes(len, Listed { uid, flags, modseq }) {
            if self.runs.len() == MOST_RUNS {
                return Some(entry);
            }
            if self.runs.len() == self.runs.capacity() {
                // A list that doubles its room is half empty for long, and each session has its own.
                self.runs.reserve_exact((self.runs.len() / 8).max(1));
            }
            self.runs.push(Run { at: self.len, uid, modseq, ascends: false, flags: entry.flags });
        }
        self.len += 1;
        None
    }

    fn set(&mut self, offset: u32, flags: Flags, modseq: u64) {
        let index = self.run_at(offset);
        let run = &self.runs[index];
        let (place, len) = (offset - run.at, self.len_of(index));
        let rest = |place: u32| {
            let Listed { uid, flags, modseq } = run.message(place);
            Run { at: run.at + place, uid, modseq, ascends: run.ascends, flags: flags.clone() }
        };
        let before = (place > 0).then(|| rest(0));
        let changed = Run { flags, modseq, ..rest(place) };
        let after = (place + 1 < len).then(|| rest(place + 1));
        let parts: Vec<Run> = before.into_iter().chain([changed]).chain(after).collect();
        let end = index + parts.len();
        self.runs.splice(index..=index, parts);
        // The changed message may continue its neighbours.
        for index in (index.saturating_sub(1)..end).rev() {
            self.join_with_next(index);
        }
    }

    fn join_with_next(&mut self, index: usize) {
        let Some(next) = self.runs.get(index + 1) else { return };
        let mut joined = self.runs[index].clone();
        let is_same = joined.takes(self.len_of(index), next.message(0));
        if is_same && (self.len_of(index + 1) == 1 || next.ascends == joined.ascends) {
            self.runs[index] = joined;
            self.runs.remove(index + 1);
        }
    }

    /// Takes the second half of the runs away.
    fn split(&mut self) -> Self {
        let mut runs = self.runs.split_off(self.runs.len() / 2);
        let len = runs[0].at;
        for run in &mut runs {
            run.at -= len;
        }
        let rest = Self { at: self.at + len, len: self.len - len, runs };
        self.len = len;
        rest
    }
}

impl MessageList {
    pub(super) fn len(&self) -> u32 {
        self.blocks.last().map_or(0, |last| last.at + last.len)
    }

    pub(super) fn last_uid(&self) -> Option<u32> {
        self.blocks.last().map(|last| last.get(last.len - 1).uid)
    }

    fn block_at(&self, at: u32) -> Option<usize> {
        self.blocks.partition_point(|block| block.at <= at).checked_sub(1).filter(|_| at < self.len())
    }

    /// Returns the message at a position.
    pub(super) fn get(&self, at: u32) -> Option<Listed<'_>> {
        let block = &self.blocks[self.block_at(at)?];
        Some(block.get(at - block.at))
    }

    /// Returns the position of a UID.
    pub(super) fn position(&self, uid: u32) -> Option<u32> {
        let at = self.first_from(uid);
        self.get(at).filter(|message| message.uid == uid).map(|_| at)
    }

    /// Returns the position of the first message with this UID or a higher one; the length if there is none.
    fn first_from(&self, uid: u32) -> u32 {
        let index = self.blocks.partition_point(|block| block.first_uid() <= uid).checked_sub(1);
        index.map_or(0, |index| self.blocks[index].at + self.blocks[index].first_from(uid))
    }

    /// Returns the positions of the UIDs from `first` to `last`, both included.
    pub(super) fn positions(&self, first: u32, last: u32) -> Range<u32> {
        let end = last.checked_add(1).map_or(self.len(), |after| self.first_from(after));
        self.first_from(first)..end
    }

    /// Returns the UIDs at these positions.
    pub(super) fn uids(&self, positions: Range<u32>) -> impl Iterator<Item = u32> {
        let Range { start, end } = positions;
        let first = self.block_at(start).unwrap_or(self.blocks.len());
        let blocks = self.blocks[first..].iter().take_while(move |block| block.at < end);
        blocks.flat_map(move |block| block.uids(start.saturating_sub(block.at)..block.len.min(end - block.at)))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Listed<'_>> {
        self.blocks.iter().flat_map(Block::iter)
    }

    /// Adds a message. Its UID must be above all others.
    pub(super) fn push(&mut self, entry: MessageEntry) {
        let refused = match self.blocks.last_mut() {
            Some(last) => last.push(entry),
            None => Some(entry),
        };
        if let Some(MessageEntry { uid, flags, modseq }) = refused {
            let runs = vec![Run { at: 0, uid, modseq, ascends: false, flags }];
            self.blocks.push(Block { at: self.len(), len: 1, runs });
        }
    }

    /// Changes the message at a position.
    pub(super) fn set(&mut self, at: u32, flags: Flags, modseq: u64) {
        let Some(index) = self.block_at(at) else { return };
        let block = &mut self.blocks[index];
        let known = block.get(at - block.at);
        if *known.flags == flags && known.modseq == modseq {
            return;
        }
        block.set(at - block.at, flags, modseq);
        if block.runs.len() > MOST_RUNS {
            let rest = block.split();
            self.blocks.insert(index + 1, rest);
        }
    }

    /// Removes the messages whose UID `is_kept` refuses.
    pub(super) fn retain(&mut self, is_kept: impl Fn(u32) -> bool) {
        let kept = self.iter().filter(|message| is_kept(message.uid)).map(Listed::to_entry).collect();
        *self = kept;
    }
}

impl Extend<MessageEntry> for MessageList {
    fn extend<I: IntoIterator<Item = MessageEntry>>(&mut self, entries: I) {
        for entry in entries {
            self.push(entry);
        }
    }
}

impl FromIterator<MessageEntry> for MessageList {
    fn from_iter<I: IntoIterator<Item = MessageEntry>>(entries: I) -> Self {
        let mut list = Self::default();
        list.extend(entries);
        if let Some(last) = list.blocks.last_mut() {
            last.runs.shrink_to_fit();
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORDS: [&str; 3] = ["", "\\Seen", "\\Seen $Junk"];

    #[derive(Debug, Clone)]
    enum Step {
        Push { gap: u32, flags: usize, modseq: u64 },
        Set { at: prop::sample::Index, flags: usize, modseq: u64 },
        Remove(Vec<prop::sample::Index>),
    }

    fn step() -> impl Strategy<Value = Step> {
        let push = (0u32..3, 0usize..3, 0u64..3).prop_map(|(gap, flags, modseq)| Step::Push { gap, flags, modseq });
        let set = (any::<prop::sample::Index>(), 0usize..3, 1u64..30).prop_map(|(at, flags, modseq)| Step::Set {
            at,
            flags,
            modseq,
        });
        let remove = prop::collection::vec(any::<prop::sample::Index>(), 0..4).prop_map(Step::Remove);
        prop_oneof![8 => push, 8 => set, 1 => remove]
    }

    fn flags(number: usize) -> Flags {
        Flags::from_words(WORDS[number].split_whitespace())
    }

    fn check(list: &MessageList, expected: &[MessageEntry]) {
        let listed: Vec<_> = list.iter().map(Listed::to_entry).collect();
        assert_eq!(listed, expected);
        assert_eq!((list.len() as usize, list.last_uid()), (expected.len(), expected.last().map(|entry| entry.uid)));
        for (at, entry) in (0u32..).zip(expected) {
            assert_eq!(list.get(at).map(Listed::to_entry).as_ref(), Some(entry));
            assert_eq!(list.position(entry.uid), Some(at));
        }
        let largest = expected.last().map_or(0, |entry| entry.uid);
        for first in (0..=largest + 2).step_by(largest as usize / 100 + 1) {
            assert_eq!(list.position(first).is_some(), expected.iter().any(|entry| entry.uid == first));
            for last in [first, first + 3, u32::MAX] {
                let position = |uid| expected.partition_point(|entry| entry.uid < uid);
                let end = expected.partition_point(|entry| entry.uid <= last);
                let positions = list.positions(first, last);
                assert_eq!((positions.start as usize, positions.end as usize), (position(first), end));
                let uids: Vec<u32> = list.uids(positions).collect();
                let expected: Vec<u32> =
                    expected[position(first).min(end)..end].iter().map(|entry| entry.uid).collect();
                assert_eq!(uids, expected);
            }
        }
        assert_eq!(list.get(list.len()), None);
    }

    proptest! {
        #[test]
        fn a_list_is_what_was_put_into_it(steps in prop::collection::vec(step(), 0..40)) {
            let (mut list, mut expected) = (MessageList::default(), Vec::<MessageEntry>::new());
            for step in steps {
                match step {
                    Step::Push { gap, flags: number, modseq } => {
                        let (uid, last) = expected.last().map_or((1, 5), |last| (last.uid + 1, last.modseq));
                        let entry = MessageEntry { uid: uid + gap, flags: flags(number), modseq: last + modseq };
                        list.push(entry.clone());
                        expected.push(entry);
                    }
                    Step::Set { at, flags: number, modseq } if !expected.is_empty() => {
                        let at = at.index(expected.len());
                        list.set(u32::try_from(at).unwrap(), flags(number), modseq);
                        (expected[at].flags, expected[at].modseq) = (flags(number), modseq);
                    }
                    Step::Remove(gone) if !expected.is_empty() => {
                        let gone: Vec<u32> = gone.iter().map(|at| expected[at.index(expected.len())].uid).collect();
                        list.retain(|uid| !gone.contains(&uid));
                        expected.retain(|entry| !gone.contains(&entry.uid));
                    }
                    _ => {}
                }
                check(&list, &expected);
            }
        }
    }

    #[test]
    fn mail_that_arrives_takes_no_memory_for_each() {
        let arrived = |uid: u32| MessageEntry { uid, flags: Flags::new(), modseq: u64::from(uid) + 7 };
        let mut list: MessageList = (1..=20_000).map(arrived).collect();
        assert_eq!(runs(&list), [1]);
        // One change of a run of messages ends in at most three runs.
        for at in 100..200 {
            list.set(at, flags(1), 30_000);
        }
        assert_eq!(runs(&list), [3]);
        for at in 100..200 {
            list.set(at, Flags::new(), u64::from(at) + 8);
        }
        assert_eq!(runs(&list), [1]);
    }

    #[test]
    fn a_change_moves_a_bounded_number_of_runs() {
        let arrived = |uid: u32| MessageEntry { uid, flags: Flags::new(), modseq: 1 };
        let mut list: MessageList = (1..=10_000).map(arrived).collect();
        let mut expected: Vec<_> = (1..=10_000).map(arrived).collect();
        // Every second message, in an order that splits blocks everywhere.
        for at in (0..5_000).map(|number| number * 7_919 % 5_000 * 2) {
            list.set(at, flags(1), u64::from(at) + 2);
            let entry = &mut expected[at as usize];
            (entry.flags, entry.modseq) = (flags(1), u64::from(at) + 2);
        }
        check(&list, &expected);
        assert!(runs(&list).iter().all(|count| *count <= MOST_RUNS) && runs(&list).len() < 100, "{:?}", runs(&list));
        let different: MessageList = expected.into_iter().collect();
        assert_eq!(runs(&different), [vec![MOST_RUNS; 19], vec![10_000 - 19 * MOST_RUNS]].concat());
    }

    /// Returns the number of runs of each block.
    fn runs(list: &MessageList) -> Vec<usize> {
        list.blocks.iter().map(|block| block.runs.len()).collect()
    }

    #[test]
    fn the_largest_uid_is_no_exception() {
        let list: MessageList = [u32::MAX - 1, u32::MAX]
            .map(|uid| MessageEntry { uid, flags: Flags::new(), modseq: 1 })
            .into_iter()
            .collect();
        assert_eq!(list.position(u32::MAX), Some(1));
        assert_eq!(list.positions(1, u32::MAX), 0..2);
        assert_eq!(list.positions(u32::MAX, u32::MAX), 1..2);
    }
}
