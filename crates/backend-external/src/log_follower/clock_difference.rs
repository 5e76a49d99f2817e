//! By how much the clock of the log is ahead of ours: another machine's clock, or local time that is read in another zone.
//!
//! Two facts are certain. A line is never read before it is written; so one whose time lies ahead shows that the log's
//! clock is ahead. And Postfix queues a message no earlier than shortly before we read its reply; so a line about a
//! message of ours whose time is earlier shows that the log's clock is behind. A line that says neither says nothing: a
//! logger may be slow, and so may the queue.

use std::time::Duration;

use mailapi_model::Timestamp;

/// So many lines in a row have to agree, since one may be damaged.
const AGREEING: usize = 3;
/// Zones differ by multiples of this.
const ZONE_STEP: i64 = 15 * 60 * 1000;
/// A look to the end of the log is old after this time: what came since may have come at any moment.
const FRESH: Duration = Duration::from_secs(10);

/// What lines speak for, since the difference was last settled.
#[derive(Debug)]
pub(super) struct ClockDifference {
    /// Smaller differences count as none, in milliseconds.
    tolerance: i64,
    by_reading: Vec<i64>,
    by_own_messages: Vec<i64>,
}

impl ClockDifference {
    pub(super) fn new(tolerance: Duration) -> Self {
        let tolerance = i64::try_from(tolerance.as_millis()).unwrap_or(i64::MAX);
        Self { tolerance, by_reading: Vec::new(), by_own_messages: Vec::new() }
    }

    /// A line with the time `at`, corrected by `ahead` milliseconds, was written between `from`, when the end of the log
    /// was seen, and `now`. Returns the new difference when it changes.
    pub(super) fn note_line(&mut self, ahead: i64, at: Timestamp, from: Timestamp, now: Timestamp) -> Option<i64> {
        if now.since(from) > FRESH {
            return None;
        }
        let (at_least, at_most) = (millis_since(at, now), millis_since(at, from).saturating_add(1000));
        let speaks_for = if at_least > self.tolerance {
            Some(at_least)
        } else if ahead > 0 && at_most < -self.tolerance {
            // It is not as far ahead as it was. Whether it is behind only our own messages can show.
            Some(at_least.max(-ahead))
        } else {
            None
        };
        settle(&mut self.by_reading, self.tolerance, ahead, speaks_for)
    }

    /// A line about a message of ours, whose reply was read at `replied_at`.
    pub(super) fn note_own(&mut self, ahead: i64, at: Timestamp, replied_at: Timestamp) -> Option<i64> {
        let apart = millis_since(at, replied_at);
        settle(&mut self.by_own_messages, self.tolerance, ahead, (apart < -self.tolerance).then_some(apart))
    }
}

fn millis_since(at: Timestamp, from: Timestamp) -> i64 {
    at.as_millis().saturating_sub(from.as_millis())
}

fn settle(doubts: &mut Vec<i64>, tolerance: i64, ahead: i64, speaks_for: Option<i64>) -> Option<i64> {
    let Some(more) = speaks_for else {
        doubts.clear();
        return None;
    };
    doubts.push(more);
    if doubts.len() < AGREEING {
        return None;
    }
    // What delays a line, or our reading of it, makes the difference look smaller.
    let most = doubts.drain(..).max()?;
    let settled = rounded(ahead.saturating_add(most), tolerance);
    (settled != ahead).then_some(settled)
}

/// Zones differ by quarters of an hour; anything else is known to the second.
fn rounded(ahead: i64, tolerance: i64) -> i64 {
    let steps = ahead.saturating_add(ZONE_STEP / 2).div_euclid(ZONE_STEP) * ZONE_STEP;
    if (ahead - steps).abs() <= tolerance { steps } else { ahead / 1000 * 1000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_795_000_000_000 + millis)
    }

    /// Three lines with this time, read at once, half a second after the last look.
    fn read(difference: &mut ClockDifference, ahead: i64, millis: i64) -> Option<i64> {
        (0..3).find_map(|_| difference.note_line(ahead, at(millis), at(-500), at(0)))
    }

    #[test]
    fn a_line_or_two_and_small_differences_change_nothing() {
        let mut difference = ClockDifference::new(Duration::from_secs(5));
        for millis in [-3600 * 1000, -30_000, -1000, 0, 4000] {
            assert_eq!(read(&mut difference, 0, millis), None, "{millis}");
        }
        for _ in 0..9 {
            assert_eq!(difference.note_line(0, at(2 * HOUR), at(-500), at(0)), None);
            assert_eq!(difference.note_line(0, at(2 * HOUR), at(-500), at(0)), None);
            assert_eq!(difference.note_line(0, at(0), at(-500), at(0)), None);
        }
        // Nobody knows when it came.
        assert_eq!((0..9).find_map(|_| difference.note_line(0, at(2 * HOUR), at(-HOUR), at(0))), None);
        for millis in [-1000, 0, 600_000] {
            assert_eq!((0..9).find_map(|_| difference.note_own(0, at(millis), at(0))), None);
        }
    }

    #[test]
    fn a_zone_is_found_exactly_and_another_difference_to_the_second() {
        let mut difference = ClockDifference::new(Duration::from_secs(5));
        assert_eq!(read(&mut difference, 0, 2 * HOUR - 700), Some(2 * HOUR));
        assert_eq!(read(&mut difference, 0, 25 * HOUR), Some(25 * HOUR));
        assert_eq!(read(&mut difference, 0, 47_300), Some(47_000));
        // Summer time ended, which shows also without messages of ours; and the zone was set right.
        assert_eq!(read(&mut difference, 2 * HOUR, -HOUR), Some(HOUR));
        assert_eq!(read(&mut difference, 2 * HOUR, -2 * HOUR), Some(0));
        assert_eq!(read(&mut difference, -2 * HOUR, 2 * HOUR), Some(0));
        assert_eq!((0..3).find_map(|_| difference.note_own(0, at(-5 * HOUR - 300), at(0))), Some(-5 * HOUR));
    }
}
