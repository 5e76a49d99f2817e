//! The rate at which messages go to one destination.
//!
//! Messages are counted in short windows instead of one at a time, so that a connection still carries several.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mailapi_model::Timestamp;

use super::connect::Destination;

/// Length of a window, if the rate allows a message in it.
const WINDOW: Duration = Duration::from_secs(10);

/// Number of destinations above which those without a current window are removed.
const MANY: usize = 1_000;

/// The messages that each destination got in its current window.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<HashMap<Destination, Window>>);

#[derive(Debug)]
struct Window {
    ends: Timestamp,
    /// Number of messages that were admitted or deferred in it.
    asked: u32,
}

impl Pace {
    /// Admits a message at `now`, or returns the time to ask again. No place in that later window is reserved: other
    /// messages may come first.
    pub(super) fn admit(
        &self,
        destination: &Destination,
        per_minute: NonZeroU32,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        let per_minute = per_minute.get();
        let admitted = (per_minute / 6).max(1);
        let length = WINDOW.max(Duration::from_mins(1) / per_minute);
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if windows.len() >= MANY {
            windows.retain(|_, window| window.ends > now);
        }
        let window = windows.entry(destination.clone()).or_insert(Window { ends: now, asked: 0 });
        if window.ends <= now {
            *window = Window { ends: now.plus(length), asked: 0 };
        }
        let later = window.asked / admitted;
        window.asked = window.asked.saturating_add(1);
        match later {
            0 => Ok(()),
            later => Err(window.ends.plus(length * (later - 1))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_seconds(0).plus(Duration::from_secs(seconds))
    }

    fn far() -> Destination {
        Destination::Domain("far.example".parse().unwrap())
    }

    /// Returns the seconds at which ten messages that come at `now` may be sent.
    fn ten(pace: &Pace, per_minute: u32, now: u64) -> Vec<u64> {
        let per_minute = NonZeroU32::new(per_minute).unwrap();
        let admit = |_| match pace.admit(&far(), per_minute, at(now)) {
            Ok(()) => now,
            Err(later) => later.since(at(0)).as_secs(),
        };
        (0..10).map(admit).collect()
    }

    #[test]
    fn messages_are_spread_over_windows() {
        assert_eq!(ten(&Pace::default(), 24, 0), [0, 0, 0, 0, 10, 10, 10, 10, 20, 20]);
        assert_eq!(ten(&Pace::default(), 2, 5), [5, 35, 65, 95, 125, 155, 185, 215, 245, 275], "a window lasts longer");
        assert_eq!(ten(&Pace::default(), 600, 0), [0; 10]);
    }

    #[test]
    fn a_window_begins_with_the_first_message_after_the_last_one() {
        let pace = Pace::default();
        ten(&pace, 24, 0);
        assert_eq!(ten(&pace, 24, 9)[0], 20, "those that wait already come first");
        assert_eq!(ten(&pace, 24, 13), [13, 13, 13, 13, 23, 23, 23, 23, 33, 33]);
    }

    #[test]
    fn destinations_have_their_own_rates_and_are_forgotten() {
        let pace = Pace::default();
        let one = NonZeroU32::MIN;
        for number in 0..2 * MANY {
            let destination = Destination::Domain(format!("d{number}.example").parse().unwrap());
            assert_eq!(pace.admit(&destination, one, at(number as u64)), Ok(()));
        }
        assert!(pace.0.lock().unwrap().len() <= MANY);
    }
}
