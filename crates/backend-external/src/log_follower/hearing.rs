//! When the mail server wrote to its log, by our own clock: log lines carry the times of another clock or zone.

use std::time::Duration;

use mailapi_model::Timestamp;

/// A line that Postfix logs because we connected to it arrives within this time. A logger may buffer lines for some
/// seconds.
pub(super) const HEARING_TIME: Duration = Duration::from_secs(20);

/// The results of successive looks at the end of the log.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    /// Lines of Postfix at the last look at the end; `None` after the count was reset.
    lines: Option<u64>,
    /// When that look began.
    looked_at: Option<Timestamp>,
    /// The newest line was written after this moment.
    spoke_after: Option<Timestamp>,
    /// When a new line was last read.
    heard_at: Option<Timestamp>,
}

impl Hearing {
    /// Resets the count: the reader continues elsewhere, and counts its lines from another place.
    pub(super) fn count_anew(&mut self) {
        self.lines = None;
    }

    /// Notes that a line of Postfix was read.
    pub(super) fn note_line(&mut self, now: Timestamp) {
        self.heard_at = self.heard_at.max(Some(now));
    }

    /// Notes that a look that began at `begun` reached the end of the log after this many lines of Postfix.
    pub(super) fn note_end(&mut self, lines: u64, begun: Timestamp) {
        if self.lines.is_some_and(|known| lines > known) {
            self.spoke_after = self.spoke_after.max(self.looked_at);
        }
        self.lines = Some(lines);
        self.looked_at = Some(begun);
    }

    /// When the end of the log was last seen, if it was after this many lines. Lines read now were written since then.
    pub(super) fn end_seen_at(&self, lines: u64) -> Option<Timestamp> {
        self.looked_at.filter(|_| self.lines == Some(lines))
    }

    /// Whether Postfix certainly wrote a line after this moment.
    pub(super) fn spoke_since(&self, moment: Timestamp) -> bool {
        self.spoke_after.is_some_and(|after| after >= moment)
    }

    /// Whether a line of Postfix was read after this moment, whenever it was written.
    pub(super) fn heard_since(&self, moment: Timestamp) -> bool {
        self.heard_at.is_some_and(|heard_at| heard_at >= moment)
    }
}
