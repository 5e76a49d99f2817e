//! Time and randomness, passed as parameters so that tests control both.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::{DateTime, Time};
use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;

/// A time in UTC with millisecond precision, counted from the Unix epoch.
///
/// Displayed as RFC 3339 with a `Z`: `2026-11-20T10:15:30.123Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest accepted time: 0001-01-01.
    const EARLIEST: i64 = -62_135_596_800_000;
    /// The latest accepted time, the end of the year 9999. `jiff::Timestamp` ends a day earlier, because it
    /// supports all offsets; here only UTC is displayed.
    const LATEST: i64 = 253_402_300_799_999;

    /// Converts milliseconds since the Unix epoch, clamped to the years 1 to 9999, the range of RFC 3339.
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

    /// Converts whole seconds since the Unix epoch, clamped like [`Timestamp::from_millis`].
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self::from_millis(seconds.saturating_mul(1000))
    }

    /// Returns milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns whole seconds since the Unix epoch, rounded down.
    #[must_use]
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Adds a duration.
    #[must_use]
    pub fn plus(self, while_: std::time::Duration) -> Self {
        Self::from_millis(self.0.saturating_add(i64::try_from(while_.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Subtracts a duration.
    #[must_use]
    pub fn minus(self, while_: std::time::Duration) -> Self {
        Self::from_millis(self.0.saturating_sub(i64::try_from(while_.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns the duration since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> std::time::Duration {
        std::time::Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }

    /// Parses an ISO 8601 date-time or a bare date (`2026-11-20`), which means its start in UTC. A missing
    /// offset means UTC.
    ///
    /// # Errors
    /// When the text is neither, or is outside the years 1 to 9999.
    pub fn parse_date_or_time(text: &str) -> Result<Self, TimestampError> {
        match Named::read(text)? {
            Named::Moment(moment) | Named::DayFrom(moment) => Ok(moment),
        }
    }

    /// Parses the exclusive end of a period like [`Timestamp::parse_date_or_time`]. A bare date means the end
    /// of that day, which is the start of the next one.
    ///
    /// # Errors
    /// The errors of [`Timestamp::parse_date_or_time`].
    pub fn parse_end(text: &str) -> Result<Self, TimestampError> {
        match Named::read(text)? {
            Named::Moment(moment) => Ok(moment),
            Named::DayFrom(moment) => Ok(Self::from_millis(moment.0 + DAY_MILLIS)),
        }
    }

    /// Converts a civil time at this offset from UTC.
    fn of_civil(shown: DateTime, offset: Offset) -> Result<Self, TimestampError> {
        let since_epoch = shown.duration_since(EPOCH).as_millis();
        let millis = i64::try_from(since_epoch).map_err(|_| TimestampError)? - i64::from(offset.seconds()) * 1000;
        let moment = Self::from_millis(millis);
        // A clamped time is out of range.
        if moment.as_millis() == millis { Ok(moment) } else { Err(TimestampError) }
    }
}

/// A parsed date or time.
enum Named {
    Moment(Timestamp),
    /// A day in UTC, by its start.
    DayFrom(Timestamp),
}

impl Named {
    fn read(text: &str) -> Result<Self, TimestampError> {
        if let Ok(moment) = text.parse() {
            return Ok(Self::Moment(moment));
        }
        let pieces = Pieces::parse(text).map_err(|_| TimestampError)?;
        // A time with a zone must not be read as UTC.
        if pieces.to_numeric_offset().is_some() || pieces.time_zone_annotation().is_some() {
            return Err(TimestampError);
        }
        let in_utc = |time| Timestamp::of_civil(pieces.date().to_datetime(time), Offset::UTC);
        match pieces.time() {
            Some(time) => in_utc(time).map(Self::Moment),
            // Other forms of a date that jiff accepts are rejected.
            None if text.len() == "2026-11-20".len() => in_utc(Time::midnight()).map(Self::DayFrom),
            None => Err(TimestampError),
        }
    }
}

/// The text is not a date or a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be an ISO 8601 date or date-time, such as 2026-11-20 or 2026-11-20T10:15:30Z; without an offset it is UTC"
)]
pub struct TimestampError;

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let pieces = Pieces::parse(text).map_err(|_| TimestampError)?;
        let (time, offset) = pieces.time().zip(pieces.to_numeric_offset()).ok_or(TimestampError)?;
        Self::of_civil(pieces.date().to_datetime(time), offset)
    }
}

/// A formatted time, such as `2026-11-20T10:15:30.123Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampText([u8; 24]);

impl TimestampText {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("digits and punctuation are ASCII")
    }
}

impl Timestamp {
    /// Formats the time without an allocation: lists contain hundreds of them. jiff's printer and civil arithmetic
    /// take twice as long, because they support more forms.
    #[must_use]
    pub fn to_text(self) -> TimestampText {
        let shown = self.in_utc();
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let mut write = |place: Range<usize>, number: i16| {
            let mut rest = number.unsigned_abs();
            for digit in text[place].iter_mut().rev() {
                *digit += u8::try_from(rest % 10).unwrap_or_default();
                rest /= 10;
            }
        };
        write(0..4, shown.year());
        write(5..7, shown.month().into());
        write(8..10, shown.day().into());
        write(11..13, shown.hour().into());
        write(14..16, shown.minute().into());
        write(17..19, shown.second().into());
        write(20..23, shown.millisecond());
        TimestampText(text)
    }

    fn in_utc(self) -> DateTime {
        if let Ok(moment) = jiff::Timestamp::from_millisecond(self.0) {
            return Offset::UTC.to_datetime(moment);
        }
        let since_epoch = SignedDuration::from_millis(self.0);
        EPOCH.checked_add(since_epoch).expect("a timestamp is within the years 1 to 9999")
    }
}

/// A `jiff::Timestamp` ends before the year 9999 does, so civil times are counted from this one.
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_text().as_str())
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A clock: the system's in the binary, a controlled one in tests.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;

    /// Returns the time since a fixed, arbitrary moment. It is monotonic, so it measures durations.
    fn steady(&self) -> Duration;
}

/// A source of random bytes: the system's in the binary, a seeded one in tests.
pub trait Entropy: Send + Sync {
    /// Fills `buffer` with unpredictable bytes.
    fn fill(&self, buffer: &mut [u8]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "today",
            "2026-13-01",
            "2026-11-20T25:00:00Z",
            "2026-11-20T25:00:00",
            "2026-11-20T10:00:00+",
            "2026-11-20T10:00:00[Europe/Berlin]",
            "2026-11-20[Europe/Berlin]",
            "0000-12-31T23:59:59",
            "20261120",
            "1",
        ] {
            assert_eq!(Timestamp::parse_date_or_time(text), Err(TimestampError), "{text}");
            assert_eq!(Timestamp::parse_end(text), Err(TimestampError), "{text}");
        }
    }

    #[test]
    fn any_offset_is_read_and_utc_is_shown() {
        let moment = Timestamp::parse_date_or_time("2026-11-20T12:15:30.123+02:00").unwrap();
        assert_eq!(moment.to_string(), "2026-11-20T10:15:30.123Z");
        assert_eq!(Timestamp::parse_date_or_time("2026-11-20").unwrap().to_string(), "2026-11-20T00:00:00.000Z");
    }

    #[test]
    fn a_time_without_an_offset_is_utc() {
        for (text, shown) in [
            ("2026-11-22T10:00:00", "2026-11-22T10:00:00.000Z"),
            ("2026-11-22T10:00:00.123456", "2026-11-22T10:00:00.123Z"),
            ("2026-11-22T10:00", "2026-11-22T10:00:00.000Z"),
            ("9999-12-31T23:59:59.999", "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp::parse_date_or_time(text).unwrap().to_string(), shown);
            assert_eq!(Timestamp::parse_end(text).unwrap().to_string(), shown, "an end that has a time is that time");
        }
    }

    #[test]
    fn a_period_that_ends_with_a_date_holds_its_whole_day() {
        for (text, shown) in [
            ("2026-11-22", "2026-11-23T00:00:00.000Z"),
            ("2024-02-28", "2024-02-29T00:00:00.000Z"),
            ("2026-12-31", "2027-01-01T00:00:00.000Z"),
            ("9999-12-31", "9999-12-31T23:59:59.999Z"),
            ("2026-11-22T00:00:00Z", "2026-11-22T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp::parse_end(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn moments_outside_the_calendar_are_clamped_and_still_shown() {
        assert_eq!(Timestamp::from_millis(i64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::from_millis(i64::MIN).to_string(), "0001-01-01T00:00:00.000Z");
    }

    #[test]
    fn the_last_representable_day_is_read_with_any_offset() {
        for (text, shown) in [
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59.000Z"),
            ("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999Z"),
            ("9999-12-31T23:59:59+14:00", "9999-12-31T09:59:59.000Z"),
            ("9999-12-31T15:59:59.999-08:00", "9999-12-31T23:59:59.999Z"),
            ("9999-12-31", "9999-12-31T00:00:00.000Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp::parse_date_or_time(text).map(|moment| moment.to_string()), Ok(shown.to_owned()));
        }
        for outside in
            ["9999-12-31T23:59:59-00:01", "9999-12-31T16:00:00-08:00", "0001-01-01T00:00:00+00:01", "0000-12-31"]
        {
            assert_eq!(Timestamp::parse_date_or_time(outside), Err(TimestampError), "{outside}");
        }
    }

    #[test]
    fn leap_days_and_the_ends_of_years_are_shown() {
        for text in ["2024-02-29T23:59:59.999Z", "2000-02-29T00:00:00.000Z", "1900-03-01T00:00:00.000Z"] {
            assert_eq!(Timestamp::parse_date_or_time(text).unwrap().to_string(), text);
        }
        for text in ["1970-01-01T00:00:00.000Z", "1969-12-31T23:59:59.999Z", "2100-02-28T12:00:00.500Z"] {
            assert_eq!(Timestamp::parse_date_or_time(text).unwrap().to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn every_moment_is_shown_as_the_calendar_has_it(millis in Timestamp::EARLIEST..=Timestamp::LATEST) {
            let expected = EPOCH.checked_add(SignedDuration::from_millis(millis)).unwrap();
            let (moment, expected) = (Timestamp::from_millis(millis), format!("{expected:.3}Z"));
            prop_assert_eq!(moment.to_string(), expected.as_str());
            prop_assert_eq!(expected.parse(), Ok(moment), "and read back");
        }

        #[test]
        fn what_a_library_reads_is_read_alike(text in "[0-9]{4}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9](:[0-6][0-9](\\.[0-9]{1,9})?)?(Z|[+-][01][0-9]:[0-5][0-9])") {
            if let Ok(expected) = text.parse::<jiff::Timestamp>() {
                let expected = Timestamp::from_millis(expected.as_millisecond());
                let read = text.parse::<Timestamp>();
                prop_assert!(read == Ok(expected) || text.starts_with("0000") || text.starts_with("0001-01-01"));
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = (Timestamp::parse_date_or_time(&text), Timestamp::parse_end(&text));
        }
    }
}
