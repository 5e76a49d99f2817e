//! Clocks for tests.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use mailapi_model::{Clock, Timestamp};

/// Returns the real time, which servers write into their logs.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970");
        Timestamp::from_millis(i64::try_from(now.as_millis()).expect("a time before the year 9999"))
    }

    fn steady(&self) -> Duration {
        // The system clock of a test machine does not change during tests.
        Duration::from_millis(self.now().as_millis().unsigned_abs())
    }
}

/// A clock that advances only on command.
#[derive(Debug)]
pub struct FakeClock {
    shown: AtomicI64,
    passed: AtomicI64,
}

impl FakeClock {
    /// Creates a clock that shows `text`, an RFC 3339 date or date-time.
    ///
    /// # Panics
    /// When the text is neither.
    #[must_use]
    pub fn at(text: &str) -> Self {
        let start = Timestamp::parse_date_or_time(text).expect("a date or a date-time");
        Self::showing(start)
    }

    /// Creates a clock that shows the real time of its creation.
    #[must_use]
    pub fn at_real_time() -> Self {
        Self::showing(RealClock.now())
    }

    const fn showing(start: Timestamp) -> Self {
        Self { shown: AtomicI64::new(start.as_millis()), passed: AtomicI64::new(0) }
    }

    /// Advances to the real time, unless the clock is ahead of it.
    pub fn catch_up(&self) {
        let real = RealClock.now().as_millis();
        let before = self.shown.fetch_max(real, Ordering::SeqCst);
        self.passed.fetch_add((real - before).max(0), Ordering::SeqCst);
    }

    /// Sets the shown time back; elapsed time does not change.
    pub fn set_back(&self, by: Duration) {
        self.shown.fetch_sub(millis(by), Ordering::SeqCst);
    }

    /// Advances both the shown and the elapsed time.
    pub fn advance(&self, by: Duration) {
        self.shown.fetch_add(millis(by), Ordering::SeqCst);
        self.passed.fetch_add(millis(by), Ordering::SeqCst);
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
        Timestamp::from_millis(self.shown.load(Ordering::SeqCst))
    }

    fn steady(&self) -> Duration {
        Duration::from_millis(self.passed.load(Ordering::SeqCst).unsigned_abs())
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).expect("a time that fits the calendar")
}
