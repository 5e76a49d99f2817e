//! What a follower reads from: records one after the other, each with its place.

use mailapi_model::Timestamp;

use super::place::Place;
use super::report::GapKind;

/// One record, not yet looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record<'a> {
    /// A line of a file, without its line end.
    Line(&'a [u8]),
    /// An entry of the journal.
    Entry {
        /// When it was written.
        at: Timestamp,
        /// Who wrote it: `postfix/smtpd[123]`.
        tag: &'a str,
        /// What.
        message: &'a str,
    },
    /// An entry of the journal that tells that others were dropped.
    Dropped(&'a str),
}

/// A gap that was come across, and details of it.
pub(super) type Noticed = (GapKind, String);

/// Reads records. Being at the end is no error: more may come.
pub(super) trait Source: Send {
    /// The next record, when there is one. `at` is when the newest record so far was written.
    fn next(&mut self, at: Option<Timestamp>) -> Result<Option<Record<'_>>, SourceError>;

    /// Where the next record begins. `at` is when the newest record before it was written.
    fn place(&self, at: Option<Timestamp>) -> Place;

    /// How many octets of the log are known to be unread.
    fn unread(&self) -> u64;

    /// The gaps that were come across since this was last asked.
    fn take_gaps(&mut self) -> Vec<Noticed>;
}

/// Why nothing can be read at the moment. Nothing is lost by it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum SourceError {
    #[error("there is no log at {0}")]
    Missing(String),
    #[error("{0}")]
    Unreadable(String),
}

impl SourceError {
    /// A failure of the file system, with what was tried.
    pub(super) fn of(what: &str, error: &std::io::Error) -> Self {
        Self::Unreadable(format!("{what}: {error}"))
    }
}
