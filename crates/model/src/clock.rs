//! Time and randomness, handed in so that a test decides both.

use std::fmt;
use std::str::FromStr;

/// A moment in UTC with millisecond precision, counted from the Unix epoch.
///
/// Shown as RFC 3339 with a `Z`: `2026-11-20T10:15:30.123Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The first moment that is accepted from outside: 0001-01-01.
    const EARLIEST: i64 = -62_135_596_800_000;
    /// The last moment that is accepted from outside: 9999-12-30, an hour in which every offset can still be shown.
    const LATEST: i64 = 253_402_207_199_999;

    /// A moment from milliseconds since the Unix epoch, clamped to the years 1 to 9999 (RFC 3339 knows no others).
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        if millis < Self::EARLIEST {
            Self(Self::EARLIEST)
        } else if millis > Self::LATEST {
            Self(Self::LATEST)
        } else {
            Self(millis)
        }
    }

    /// A moment from whole seconds since the Unix epoch, clamped as [`Timestamp::from_millis`] does.
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self::from_millis(seconds.saturating_mul(1000))
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, rounded down.
    #[must_use]
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// This moment and a while.
    #[must_use]
    pub fn plus(self, while_: std::time::Duration) -> Self {
        Self::from_millis(self.0.saturating_add(i64::try_from(while_.as_millis()).unwrap_or(i64::MAX)))
    }

    /// A while before this moment.
    #[must_use]
    pub fn minus(self, while_: std::time::Duration) -> Self {
        Self::from_millis(self.0.saturating_sub(i64::try_from(while_.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The time from `earlier` to this moment; zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> std::time::Duration {
        std::time::Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }

    /// Reads an RFC 3339 date-time with any offset, or a bare date (`2026-11-20`), which is its first moment in UTC.
    ///
    /// # Errors
    /// When the text is neither, or lies outside the years 1 to 9999.
    pub fn parse_date_or_time(text: &str) -> Result<Self, TimestampError> {
        if let Ok(moment) = text.parse() {
            return Ok(moment);
        }
        let date: jiff::civil::Date = text.parse().map_err(|_| TimestampError)?;
        if text.len() != "2026-11-20".len() {
            return Err(TimestampError);
        }
        let zoned = date.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| TimestampError)?;
        Ok(Self::from_millis(zoned.timestamp().as_millisecond()))
    }
}

/// A text that is no date and no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an ISO 8601 date or date-time, such as 2026-11-20 or 2026-11-20T10:15:30Z")]
pub struct TimestampError;

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let moment: jiff::Timestamp = text.parse().map_err(|_| TimestampError)?;
        Ok(Self::from_millis(moment.as_millisecond()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = jiff::Timestamp::from_millisecond(self.0).map_err(|_| fmt::Error)?;
        write!(f, "{moment:.3}")
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Tells the time. The system's clock in the binary, one that obeys in tests.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// Gives random bytes. The system's source in the binary, a seeded one in tests.
pub trait Entropy: Send + Sync {
    /// Fills `buffer` with unpredictable bytes.
    fn fill(&self, buffer: &mut [u8]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_date_is_refused() {
        for text in ["", "today", "2026-13-01", "2026-11-20T25:00:00Z", "2026-11-20T10:00:00", "20261120", "1"] {
            assert!(Timestamp::parse_date_or_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn any_offset_is_read_and_utc_is_shown() {
        let moment = Timestamp::parse_date_or_time("2026-11-20T12:15:30.123+02:00").unwrap();
        assert_eq!(moment.to_string(), "2026-11-20T10:15:30.123Z");
        assert_eq!(Timestamp::parse_date_or_time("2026-11-20").unwrap().to_string(), "2026-11-20T00:00:00.000Z");
    }

    #[test]
    fn moments_outside_the_calendar_are_clamped_and_still_shown() {
        assert_eq!(Timestamp::from_millis(i64::MAX).to_string(), "9999-12-30T21:59:59.999Z");
        assert_eq!(Timestamp::from_millis(i64::MIN).to_string(), "0001-01-01T00:00:00.000Z");
    }
}
