//! SEARCH and ESEARCH responses (RFC 3501 section 7.2.5, RFC 4731).

use super::body_structure::skip;
use crate::token::{Cursor, SequenceSet, SyntaxError};

/// A set of UIDs, stored as ranges: small for any number of consecutive UIDs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UidSet {
    /// Sorted, without overlaps, ends included.
    ranges: Vec<(u32, u32)>,
}

impl UidSet {
    /// Number of UIDs.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|&(first, last)| u64::from(last - first) + 1).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether the set contains the UID.
    pub fn contains(&self, uid: u32) -> bool {
        let at = self.ranges.partition_point(|&(_, last)| last < uid);
        self.ranges.get(at).is_some_and(|&(first, _)| first <= uid)
    }

    /// All UIDs in descending order.
    pub fn newest_first(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().rev().flat_map(|&(first, last)| (first..=last).rev())
    }

    /// Adds the UIDs of another set.
    pub fn extend(&mut self, more: &Self) {
        self.ranges.extend_from_slice(&more.ranges);
        self.normalize();
    }

    fn normalize(&mut self) {
        self.ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(self.ranges.len());
        for &(first, last) in &self.ranges {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        self.ranges = merged;
    }

    /// Reads the numbers of a SEARCH response; the cursor is after the keyword.
    pub(super) fn read_search(cursor: &mut Cursor) -> Result<Self, SyntaxError> {
        let mut numbers = Vec::new();
        // Some servers write several spaces. Ignore what follows the numbers (MODSEQ, RFC 7162 section 3.1.5).
        while cursor.skip_spaces().is_some_and(|byte| byte.is_ascii_digit()) {
            numbers.push(cursor.number()?);
        }
        Ok(numbers.into_iter().collect())
    }

    /// Reads ALL and the command's tag of an ESEARCH response (RFC 4731 section 3.1); the cursor is after the
    /// keyword.
    pub(super) fn read_esearch(cursor: &mut Cursor) -> Result<(Self, Option<String>), SyntaxError> {
        let (mut found, mut tag) = (Self::default(), None);
        if cursor.peek_after_space() == Some(b'(') {
            cursor.space()?;
            let mut words = cursor.list(Cursor::astring)?.into_iter();
            if words.next().is_some_and(|word| word.eq_ignore_ascii_case(b"TAG")) {
                tag = words.next().map(|tag| String::from_utf8_lossy(&tag).into_owned());
            }
        }
        while cursor.try_byte(b' ') {
            match cursor.keyword()?.as_str() {
                "UID" => {}
                "ALL" => {
                    cursor.space()?;
                    found = cursor.sequence_set()?.into();
                }
                _ => {
                    cursor.space()?;
                    skip(cursor)?;
                }
            }
        }
        Ok((found, tag))
    }
}

/// Gathers the sets of one answer.
#[derive(Debug, Default)]
pub struct UidSets {
    all: UidSet,
    /// How many ranges there were when they were last sorted.
    sorted: usize,
}

impl UidSets {
    /// Ranges that are gathered before they are sorted.
    const FEW: usize = 1024;

    /// Adds a set. A server may send one for each UID, so they are sorted whenever their number has doubled.
    pub fn add(&mut self, more: &UidSet) {
        self.all.ranges.extend_from_slice(&more.ranges);
        if self.all.ranges.len() > 2 * self.sorted.max(Self::FEW) {
            self.all.normalize();
            self.sorted = self.all.ranges.len();
        }
    }

    /// All UIDs.
    #[must_use]
    pub fn union(mut self) -> UidSet {
        self.all.normalize();
        self.all
    }
}

impl FromIterator<u32> for UidSet {
    fn from_iter<I: IntoIterator<Item = u32>>(uids: I) -> Self {
        let mut set = Self { ranges: uids.into_iter().map(|uid| (uid, uid)).collect() };
        set.normalize();
        set
    }
}

impl From<SequenceSet> for UidSet {
    /// `*` does not occur in responses; it counts as the highest possible number.
    fn from(set: SequenceSet) -> Self {
        Self { ranges: set.resolve(u32::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{Frame, Part};
    use proptest::prelude::*;

    fn cursor(text: &str) -> Cursor {
        Cursor::new(Frame::new(vec![Part::Text(text.as_bytes().to_vec())]), 4)
    }

    #[test]
    fn both_forms_of_an_answer_give_the_same() {
        let plain = UidSet::read_search(&mut cursor(" 9 1 2 3 (MODSEQ 7)")).unwrap();
        let extended = UidSet::read_esearch(&mut cursor(" (TAG \"a1\") UID COUNT 4 ALL 1:3,9 MODSEQ 7")).unwrap();
        assert_eq!((plain.clone(), Some("a1".to_owned())), extended);
        assert_eq!(plain.newest_first().collect::<Vec<_>>(), [9, 3, 2, 1]);
        assert_eq!(plain, UidSet::read_search(&mut cursor("  9 1  2 3 ")).unwrap());
        assert!(UidSet::read_esearch(&mut cursor(" (TAG \"a1\") UID")).unwrap().0.is_empty());
        assert!(UidSet::read_esearch(&mut cursor(" ALL 0")).is_err());
    }

    #[test]
    fn a_huge_set_costs_nothing() {
        let (set, tag) = UidSet::read_esearch(&mut cursor(" ALL 1:4294967295")).unwrap();
        assert_eq!(tag, None);
        assert_eq!((set.len(), set.newest_first().next()), (4_294_967_295, Some(u32::MAX)));
    }

    proptest! {
        #[test]
        fn a_set_holds_what_was_put_in(uids in prop::collection::btree_set(1u32..60, 0..30), more in prop::collection::btree_set(1u32..60, 0..9)) {
            let mut set: UidSet = uids.iter().copied().collect();
            set.extend(&more.iter().copied().collect());
            let all: std::collections::BTreeSet<u32> = uids.union(&more).copied().collect();
            prop_assert_eq!(set.len(), all.len() as u64);
            prop_assert!((1..60).all(|uid| set.contains(uid) == all.contains(&uid)));
            prop_assert_eq!(set.newest_first().collect::<Vec<_>>(), all.into_iter().rev().collect::<Vec<_>>());
        }

        #[test]
        fn many_sets_make_one(uids in prop::collection::vec(1u32..100_000, 0..6000)) {
            let mut sets = UidSets::default();
            uids.iter().for_each(|&uid| sets.add(&[uid].into_iter().collect()));
            prop_assert_eq!(sets.union(), uids.into_iter().collect());
        }
    }
}
