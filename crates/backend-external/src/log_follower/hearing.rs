//! When the mail server spoke, by our own clock: the times in its lines are those of another clock, or of another zone.

use std::time::Duration;

use mailapi_model::Timestamp;

/// A line that the mail server logs because we asked it something arrives within this time. A logger may gather lines
/// for some seconds.
pub(super) const HEARING_TIME: Duration = Duration::from_secs(20);

/// What our looks to the end of the log tell, one after the other.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    /// How many lines of Postfix there were at the last look to the end; `None` when they are counted anew.
    lines: Option<u64>,
    /// When that look began.
    looked_at: Option<Timestamp>,
    /// The newest line was written after this moment.
    spoke_after: Option<Timestamp>,
    /// When a new line was last read.
    heard_at: Option<Timestamp>,
}

impl Hearing {
    /// The reader goes on elsewhere, and its lines are counted from another place.
    pub(super) fn count_anew(&mut self) {
        self.lines = None;
    }

    /// A line of Postfix was read.
    pub(super) fn note_line(&mut self, now: Timestamp) {
        self.heard_at = self.heard_at.max(Some(now));
    }

    /// A look that began at `begun` reached the end of the log after this many lines of Postfix.
    pub(super) fn note_end(&mut self, lines: u64, begun: Timestamp) {
        if self.lines.is_some_and(|known| lines > known) {
            self.spoke_after = self.spoke_after.max(self.looked_at);
        }
        self.lines = Some(lines);
        self.looked_at = Some(begun);
    }

    /// When the end of the log was last seen, provided that it was behind this many lines: what comes now came since.
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
