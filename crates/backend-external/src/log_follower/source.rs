//! The source of a follower: records in order, each with its position.

use mailapi_model::Timestamp;

use super::FollowerError;
use super::place::Place;
use super::report::GapKind;

/// One unparsed record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record<'a> {
    /// A line of a file, without its line end.
    Line(&'a [u8]),
    /// An entry of the journal.
    Entry {
        /// The time of the entry.
        at: Timestamp,
        /// Its tag: `postfix/smtpd[123]`.
        tag: &'a str,
        /// Its text.
        message: &'a str,
    },
    /// A report in the journal that other entries were dropped.
    Dropped(&'a str),
}

/// A record, with any gap before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Next<'a> {
    pub(super) record: Record<'a>,
    /// Whether it follows a gap that [`Source::take_gaps`] did not return yet.
    pub(super) is_after_gap: bool,
}

/// A gap that was found, with details.
pub(super) type Noticed = (GapKind, String);

/// Reads records. The end is no error: more may follow.
pub(super) trait Source: Send {
    /// Returns the next record, if there is one. `at` is the time of the newest record so far.
    fn next(&mut self, at: Option<Timestamp>) -> Result<Option<Next<'_>>, FollowerError>;

    /// Returns the position of the next record. `at` is the time of the newest record before it.
    fn place(&self, at: Option<Timestamp>) -> Place;

    /// Returns how many bytes of the log are known to be unread.
    fn unread(&self) -> u64;

    /// Returns the gaps found since the last call.
    fn take_gaps(&mut self) -> Vec<Noticed>;
}
