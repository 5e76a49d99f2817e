//! A clock that obeys.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use mailapi_model::{Clock, Timestamp};

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
