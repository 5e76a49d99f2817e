//! The messages that a command names.

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
    pub(crate) fn append(&mut self, more: &Self) {
        for &(from, to) in &more.0 {
            match self.0.last_mut() {
                Some((_, last)) if to <= *last => {}
                Some((_, last)) if from <= last.saturating_add(1) => *last = to,
                _ => self.0.push((from, to)),
            }
        }
    }

    /// The ranges, ascending, ends included.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// Whether one of the ranges contains the UID.
    pub fn contains(&self, uid: u32) -> bool {
        let at = self.0.partition_point(|&(_, to)| to < uid);
        self.0.get(at).is_some_and(|&(from, _)| from <= uid)
    }
}
