//! When Postfix wrote to its log, by this server's clock: log lines have the times of another clock or zone.

use std::time::Duration;

use mailapi_model::Timestamp;

/// Postfix's line about a connection of this server arrives within this time. A logger may buffer lines for some
/// seconds.
pub(super) const HEARING_TIME: Duration = Duration::from_secs(20);

/// The results of successive reads up to the end of the log.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    /// Lines of Postfix when the end was last reached; `None` after the count was reset.
    lines: Option<u64>,
    /// When that read began.
    looked_at: Option<Timestamp>,
    /// The newest line was written after this moment.
    spoke_after: Option<Timestamp>,
    /// The most lines of Postfix read so far; `None` after a reset, until the end is reached.
    read: Option<u64>,
    /// When a new line was last read.
    heard_at: Option<Timestamp>,
}

impl Hearing {
    /// Resets the count: the reader continues elsewhere, and counts from another position.
    pub(super) fn count_anew(&mut self) {
        (self.lines, self.read) = (None, None);
    }

    /// Notes line number `count` of Postfix. A line that is read again proves nothing.
    pub(super) fn note_line(&mut self, count: u64, now: Timestamp) {
        if self.read.is_some_and(|read| count > read) {
            self.read = Some(count);
            self.heard_at = self.heard_at.max(Some(now));
        }
    }

    /// Notes a line about a message that the mail server accepted at `replied_at`. The line was written after that
    /// reply, no matter when it is read.
    pub(super) fn note_own(&mut self, replied_at: Timestamp) {
        self.heard_at = self.heard_at.max(Some(replied_at));
    }

    /// Notes that a read that began at `begun` reached the end of the log after `lines` lines of Postfix.
    pub(super) fn note_end(&mut self, lines: u64, begun: Timestamp) {
        // New lines were written after the previous read began.
        if self.lines.is_some_and(|known| lines > known) {
            self.spoke_after = self.spoke_after.max(self.looked_at);
        }
        self.lines = Some(lines);
        self.read = self.read.max(Some(lines));
        self.looked_at = Some(begun);
    }

    /// Returns when the end of the log was last reached, if that was after this many lines. Lines read now were
    /// written since then.
    pub(super) fn end_seen_at(&self, lines: u64) -> Option<Timestamp> {
        self.looked_at.filter(|_| self.lines == Some(lines))
    }

    /// Whether Postfix certainly wrote a line after this moment.
    pub(super) fn spoke_since(&self, moment: Timestamp) -> bool {
        self.spoke_after.is_some_and(|after| after >= moment)
    }

    /// Whether a new line of Postfix was read, or written, after this moment.
    pub(super) fn heard_since(&self, moment: Timestamp) -> bool {
        self.heard_at.is_some_and(|heard_at| heard_at >= moment)
    }
}
