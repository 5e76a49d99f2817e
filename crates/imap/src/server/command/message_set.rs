//! Which messages a command is about.

use crate::token::SequenceSet;

/// A set as the client wrote it: sequence numbers, or UIDs after `UID`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageSet {
    /// True when the numbers are UIDs.
    pub uid: bool,
    /// The numbers.
    pub set: SequenceSet,
}

/// UIDs as ascending ranges, ends included, without overlaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UidRanges(Vec<(u32, u32)>);

impl UidRanges {
    /// Ranges that are ascending and do not overlap already.
    pub(crate) fn new(ascending: Vec<(u32, u32)>) -> Self {
        Self(ascending)
    }

    /// The ranges, ascending, ends included.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// True when the UID is in one of the ranges.
    pub fn contains(&self, uid: u32) -> bool {
        let at = self.0.partition_point(|&(_, to)| to < uid);
        self.0.get(at).is_some_and(|&(from, _)| from <= uid)
    }
}
