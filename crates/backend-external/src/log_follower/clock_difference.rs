//! Estimates how far the log's clock is ahead of this server's: the clock of another machine, or local time read in
//! the wrong zone.
//!
//! Two facts are certain. A line is written before it is read, so a line with a future time proves that the log's
//! clock is ahead. And Postfix queues a message shortly before its reply is read at the earliest. So a line about a
//! submitted message with an earlier time proves that the log's clock is behind. Other lines prove nothing: logging
//! and delivery may be delayed.

use std::time::Duration;

use mailapi_model::Timestamp;

/// This many consecutive lines must agree, since one may be damaged.
const AGREEING: usize = 3;
/// Time zones differ by multiples of this (milliseconds).
const ZONE_STEP: i64 = 15 * 60 * 1000;
/// After this time, later lines may have arrived at any moment since the end of the log was reached.
const FRESH: Duration = Duration::from_secs(10);

/// The evidence collected since the difference last changed.
#[derive(Debug)]
pub(super) struct ClockDifference {
    /// Smaller differences are ignored (milliseconds).
    tolerance: i64,
    by_reading: Vec<i64>,
    by_own_messages: Vec<i64>,
}

impl ClockDifference {
    pub(super) fn new(tolerance: Duration) -> Self {
        let tolerance = i64::try_from(tolerance.as_millis()).unwrap_or(i64::MAX);
        Self { tolerance, by_reading: Vec::new(), by_own_messages: Vec::new() }
    }

    /// Notes a line with the time `at`, already corrected by `ahead` milliseconds. It was written between `from`,
    /// when the end of the log was reached, and `now`. Returns the new difference if it changes.
    pub(super) fn note_line(&mut self, ahead: i64, at: Timestamp, from: Timestamp, now: Timestamp) -> Option<i64> {
        if now.since(from) > FRESH {
            return None;
        }
        let (at_least, at_most) = (millis_since(at, now), millis_since(at, from).saturating_add(1000));
        let speaks_for = if at_least > self.tolerance {
            Some(at_least)
        } else if ahead > 0 && at_most < -self.tolerance {
            // The lead has become smaller. Only lines about submitted messages can prove a clock that is behind.
            Some(at_least.max(-ahead))
        } else {
            None
        };
        settle(&mut self.by_reading, self.tolerance, ahead, speaks_for)
    }

    /// Notes a line about a submitted message whose reply was read at `replied_at`.
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
    // Delays in writing and reading make the difference appear smaller, so take the largest.
    let most = doubts.drain(..).max()?;
    let settled = rounded(ahead.saturating_add(most), tolerance);
    (settled != ahead).then_some(settled)
}

/// Rounds to a quarter of an hour if that is within the tolerance (a time zone), otherwise to the second.
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

    /// Three lines with this time, read now; the end of the log was reached half a second ago.
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
        // The end was reached an hour ago: the time of arrival is unknown.
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
        // Daylight saving time ended, which shows even without submitted messages; then the zone was corrected.
        assert_eq!(read(&mut difference, 2 * HOUR, -HOUR), Some(HOUR));
        assert_eq!(read(&mut difference, 2 * HOUR, -2 * HOUR), Some(0));
        assert_eq!(read(&mut difference, -2 * HOUR, 2 * HOUR), Some(0));
        assert_eq!((0..3).find_map(|_| difference.note_own(0, at(-5 * HOUR - 300), at(0))), Some(-5 * HOUR));
    }
}
