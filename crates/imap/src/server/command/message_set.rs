//! The messages that a command names.

use std::fmt;
use std::ops::Range;

use crate::token::SequenceSet;

/// A set as the client wrote it: sequence numbers, or UIDs in the `UID` forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageSet {
    /// Whether the numbers are UIDs.
    pub uid: bool,
    /// The numbers.
    pub set: SequenceSet,
}

/// The messages that a search key names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchSet {
    /// A set.
    Set(MessageSet),
    /// Messages that are `\Recent` in this session.
    Recent,
}

/// UIDs as ascending ranges, ends included, without overlaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UidRanges(Vec<(u32, u32)>);

impl UidRanges {
    /// Wraps ranges that are already ascending and do not overlap.
    pub(crate) fn new(ascending: Vec<(u32, u32)>) -> Self {
        Self(ascending)
    }

    /// The UIDs of a half-open range.
    pub fn of(range: Range<u32>) -> Self {
        Self(if range.is_empty() { Vec::new() } else { vec![(range.start, range.end - 1)] })
    }

    /// Adds UIDs above all present ones; lower ones are ignored.
    pub fn append(&mut self, more: &Self) {
        for &(from, to) in &more.0 {
            match self.0.last_mut() {
                Some((_, last)) if to <= *last => {}
                Some((_, last)) if from <= last.saturating_add(1) => *last = to,
                _ => self.0.push((from, to)),
            }
        }
    }

    /// The UIDs of ranges, ends included, in any order.
    pub fn from_ranges(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut merged = Self::default();
        for (from, to) in ranges {
            match merged.0.last_mut() {
                Some((_, last)) if from <= last.saturating_add(1) => *last = to.max(*last),
                _ => merged.0.push((from, to)),
            }
        }
        merged
    }

    /// The UIDs that both contain.
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut one, mut two) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some(&&(from, to)), Some(&&(other_from, other_to))) = (one.peek(), two.peek()) {
            if from.max(other_from) <= to.min(other_to) {
                both.push((from.max(other_from), to.min(other_to)));
            }
            if to <= other_to {
                one.next()
            } else {
                two.next()
            };
        }
        Self(both)
    }

    /// The UIDs without those of `uids`, which ascend.
    pub fn without(&self, uids: &[u32]) -> Self {
        let mut left = Vec::new();
        let mut uids = uids.iter().copied().peekable();
        for &(first, to) in &self.0 {
            let mut from = Some(first);
            while let Some(uid) = uids.next_if(|&uid| uid <= to) {
                left.extend(from.filter(|&from| from < uid).map(|from| (from, uid - 1)));
                from = from.and_then(|from| if uid < from { Some(from) } else { uid.checked_add(1) });
            }
            left.extend(from.filter(|&from| from <= to).map(|from| (from, to)));
        }
        Self(left)
    }

    /// Whether there is no UID.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges, ascending, ends included.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// The UIDs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|&(from, to)| from..=to)
    }

    /// The number of UIDs.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|&(from, to)| u64::from(to - from) + 1).sum()
    }

    /// Whether one of the ranges contains the UID.
    pub fn contains(&self, uid: u32) -> bool {
        let at = self.0.partition_point(|&(_, to)| to < uid);
        self.0.get(at).is_some_and(|&(from, _)| from <= uid)
    }
}

impl fmt::Display for UidRanges {
    /// Formats a set such as `1:3,7`; without UIDs, nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (from, to)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            if from == to { write!(f, "{comma}{from}")? } else { write!(f, "{comma}{from}:{to}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn uids(ranges: &UidRanges) -> BTreeSet<u32> {
        ranges.iter().collect()
    }

    fn ranges() -> impl Strategy<Value = Vec<(u32, u32)>> {
        prop::collection::vec((1u32..60, 0u32..9).prop_map(|(from, length)| (from, from + length)), 0..8)
    }

    proptest! {
        #[test]
        fn an_intersection_has_what_both_have(one in ranges(), other in ranges()) {
            let (one, other) = (UidRanges::from_ranges(one), UidRanges::from_ranges(other));
            let expected: BTreeSet<u32> = uids(&one).intersection(&uids(&other)).copied().collect();
            prop_assert_eq!(uids(&one.intersection(&other)), expected);
        }

        #[test]
        fn the_rest_lacks_what_is_taken_out(one in ranges(), other in prop::collection::btree_set(1u32..70, 0..20)) {
            let one = UidRanges::from_ranges(one);
            let taken: Vec<u32> = other.iter().copied().collect();
            let expected: BTreeSet<u32> = uids(&one).difference(&other).copied().collect();
            prop_assert_eq!(uids(&one.without(&taken)), expected);
        }

        #[test]
        fn what_is_appended_comes_after_the_rest(one in ranges(), other in ranges()) {
            let (mut one, other) = (UidRanges::from_ranges(one), UidRanges::from_ranges(other));
            let largest = uids(&one).last().copied().unwrap_or(0);
            // A range that begins below has only UIDs that are present already.
            let new = other.iter().filter(|uid| *uid > largest).map(|uid| (uid, uid)).collect();
            let expected: BTreeSet<u32> = uids(&one).into_iter().chain(other.iter().filter(|uid| *uid > largest)).collect();
            one.append(&UidRanges::from_ranges(new));
            prop_assert_eq!(one.count(), expected.len() as u64);
            prop_assert!(one.iter().eq(expected));
        }

        #[test]
        fn merged_ranges_have_every_uid_once(ranges in ranges()) {
            let merged = UidRanges::from_ranges(ranges.clone());
            prop_assert_eq!(uids(&merged), uids(&UidRanges(ranges)));
            prop_assert!(merged.ranges().is_sorted_by(|before, after| before.1 + 1 < after.0));
        }
    }
}
