//! A clock that obeys.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use mailapi_model::{Clock, Timestamp};

/// Shows the real time, which servers write into their logs.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970");
        Timestamp::from_millis(i64::try_from(now.as_millis()).expect("a time before the year 9999"))
    }
}

/// Stands still until it is told otherwise.
#[derive(Debug)]
pub struct FakeClock(AtomicI64);

impl FakeClock {
    /// A clock that shows `text`, an RFC 3339 date or date-time.
    ///
    /// # Panics
    /// When the text is neither.
    #[must_use]
    pub fn at(text: &str) -> Self {
        let start = Timestamp::parse_date_or_time(text).expect("a date or a date-time");
        Self(AtomicI64::new(start.as_millis()))
    }

    /// A clock that shows the real time at which it was made.
    #[must_use]
    pub fn at_real_time() -> Self {
        Self(AtomicI64::new(RealClock.now().as_millis()))
    }

    /// Goes forward to the real time, unless it shows a later one.
    pub fn catch_up(&self) {
        self.0.fetch_max(RealClock.now().as_millis(), Ordering::SeqCst);
    }

    /// Moves on.
    pub fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).expect("a time that fits the calendar");
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Default for FakeClock {
    /// A Friday morning.
    fn default() -> Self {
        Self::at("2026-11-20T10:15:30Z")
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}
