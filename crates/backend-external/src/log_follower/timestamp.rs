//! Parses the time of a line in the forms of syslog daemons and Postfix's own logger.

use std::time::Duration;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use mailapi_model::Timestamp;

/// How far a line without a year may be in the future: clocks differ, and zones by up to 26 hours.
const CLOCK_SKEW: Duration = Duration::from_hours(48);
/// How far lines may be out of order without the repeated hour of a clock change counting as its second pass.
const OUT_OF_ORDER: Duration = Duration::from_mins(5);
/// How many years back a line without a year may be: 29 February needs up to eight.
const YEARS_BACK: i16 = 8;
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Parses the time at the beginning of lines.
#[derive(Debug, Clone)]
pub(super) struct TimeReader {
    zone: TimeZone,
    /// The last text without an offset, and its result: hundreds of lines share a second.
    last: (String, Timestamp),
    /// Milliseconds by which the clock of the lines is ahead of this server's.
    ahead: i64,
}

impl TimeReader {
    /// Creates a reader; `zone` applies to local times.
    pub(super) fn new(zone: TimeZone) -> Self {
        Self { zone, last: (String::new(), Timestamp::from_millis(0)), ahead: 0 }
    }

    /// Sets by how many milliseconds the clock of the lines is ahead.
    pub(super) fn set_ahead(&mut self, ahead: i64) {
        self.ahead = ahead;
    }

    /// Converts a time of the log's clock to this server's clock.
    pub(super) fn by_our_clock(&self, at: Timestamp) -> Timestamp {
        Timestamp::from_millis(at.as_millis().saturating_sub(self.ahead))
    }

    fn by_their_clock(&self, at: Timestamp) -> Timestamp {
        Timestamp::from_millis(at.as_millis().saturating_add(self.ahead))
    }

    /// Returns the time at the beginning of a line, by this server's clock, and the rest. `now` supplies a missing
    /// year. `before`, the time of the previous line, decides between the two passes of a repeated hour.
    pub(super) fn read<'a>(
        &mut self,
        line: &'a str,
        now: Timestamp,
        before: Option<Timestamp>,
    ) -> Option<(Timestamp, &'a str)> {
        let line = without_priority(line);
        let (now, before) = (self.by_their_clock(now), before.map(|before| self.by_their_clock(before)));
        let (at, rest) = if line.as_bytes().first()?.is_ascii_digit() {
            self.iso(line, before)?
        } else {
            self.traditional(line, now, before)?
        };
        Some((self.by_our_clock(at), rest))
    }

    /// Parses `2026-11-21T07:45:38.123+01:00 `, also without offset, with a space for the `T`, or with `+0100`.
    fn iso<'a>(&mut self, line: &'a str, before: Option<Timestamp>) -> Option<(Timestamp, &'a str)> {
        let (mut text, mut rest) = line.split_once(' ')?;
        if text.len() == "2026-11-21".len() {
            let (time, after) = rest.split_once(' ')?;
            text = &line[..text.len() + 1 + time.len()];
            rest = after;
        }
        if let Ok(moment) = text.parse::<jiff::Timestamp>() {
            return Some((Timestamp::from_millis(moment.as_millisecond()), rest));
        }
        let local: DateTime = text.parse().ok()?;
        Some((self.local(local, before)?, rest))
    }

    /// Parses `Nov 21 07:45:38 ` in local time without a year (RFC 3164 section 4.1.2), also `Nov 21 2026 07:45:38 `.
    fn traditional<'a>(
        &mut self,
        line: &'a str,
        now: Timestamp,
        before: Option<Timestamp>,
    ) -> Option<(Timestamp, &'a str)> {
        let (month, rest) = word(line)?;
        let (day, rest) = word(rest)?;
        let (mut time, mut rest) = word(rest)?;
        let mut year = None;
        if time.len() == 4 && !time.contains(':') {
            year = Some(time.parse::<i16>().ok()?);
            (time, rest) = word(rest)?;
        }
        let text = &line[..line.len() - rest.len()];
        // A previous line much later than the cached time may select the other pass of a repeated hour.
        if self.last.0 == text && before.is_none_or(|before| before <= self.last.1.plus(OUT_OF_ORDER)) {
            return Some((self.last.1, rest));
        }
        let month = i8::try_from(MONTHS.iter().position(|name| *name == month)?).ok()? + 1;
        let day: i8 = day.parse().ok()?;
        let time: Time = time.parse().ok()?;
        let moment = match year {
            Some(year) => self.local(Date::new(year, month, day).ok()?.to_datetime(time), before)?,
            None => self.newest_not_ahead(month, day, time, now, before)?,
        };
        text.clone_into(&mut self.last.0);
        self.last.1 = moment;
        Some((moment, rest))
    }

    /// Returns the newest such day that is not in the future: in January, a line of December is from last year.
    fn newest_not_ahead(
        &self,
        month: i8,
        day: i8,
        time: Time,
        now: Timestamp,
        before: Option<Timestamp>,
    ) -> Option<Timestamp> {
        let this_year = jiff::Timestamp::from_millisecond(now.as_millis()).ok()?.to_zoned(self.zone.clone()).year();
        // Includes next year: at the turn of the year the log's clock may be ahead.
        let years = (this_year.saturating_sub(YEARS_BACK)..=this_year.saturating_add(1)).rev();
        let days = years.filter_map(|year| Date::new(year, month, day).ok());
        let mut moments = days.filter_map(|date| self.local(date.to_datetime(time), before));
        moments.find(|moment| *moment <= now.plus(CLOCK_SKEW))
    }

    /// Resolves a local time. In the repeated hour at the end of summer time, the second pass applies once the
    /// previous line is later than the first.
    fn local(&self, local: DateTime, before: Option<Timestamp>) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(local);
        let is_fold = matches!(ambiguous.offset(), AmbiguousOffset::Fold { .. });
        let first = Timestamp::from_millis(ambiguous.compatible().ok()?.as_millisecond());
        if is_fold && before.is_some_and(|before| first.plus(OUT_OF_ORDER) < before) {
            return Some(Timestamp::from_millis(ambiguous.later().ok()?.as_millisecond()));
        }
        Some(first)
    }
}

/// Removes the protocol's priority, which some templates write first: `<22>Nov 21 …`.
pub(super) fn without_priority(line: &str) -> &str {
    let inner = line.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    match inner {
        Some((priority, rest)) if priority.len() <= 3 && priority.bytes().all(|b| b.is_ascii_digit()) => rest,
        _ => line,
    }
}

/// Returns the first word, and the text after the following spaces.
fn word(text: &str) -> Option<(&str, &str)> {
    let (word, rest) = text.split_once(' ')?;
    (!word.is_empty()).then(|| (word, rest.trim_start_matches(' ')))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn read(zone: &str, line: &str, now: &str) -> Option<String> {
        let mut reader = TimeReader::new(TimeZone::get(zone).unwrap());
        reader.read(line, at(now), None).map(|(moment, rest)| format!("{moment} {rest}"))
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for line in
            ["", "x", "Nov", "Nov 21", "Nov 31 07:45:38 mx", "Foo 21 07:45:38 mx", "2026-13-01T00:00:00Z mx", "  "]
        {
            assert_eq!(read("UTC", line, "2026-11-21T08:00:00Z"), None, "{line}");
        }
    }

    #[test]
    fn all_usual_forms_are_read() {
        let expected = Some("2026-11-21T06:45:38.000Z mx x".to_owned());
        for line in [
            "Nov 21 07:45:38 mx x",
            "<22>Nov 21 07:45:38 mx x",
            "Nov 21 2026 07:45:38 mx x",
            "2026-11-21T07:45:38+01:00 mx x",
            "2026-11-21T07:45:38+0100 mx x",
            "2026-11-21T06:45:38Z mx x",
            "2026-11-21T07:45:38 mx x",
            "2026-11-21 07:45:38 mx x",
        ] {
            assert_eq!(read("Europe/Berlin", line, "2026-11-21T08:00:00Z"), expected, "{line}");
        }
        let one_digit = read("UTC", "Nov  1 07:45:38.5 mx x", "2026-11-21T08:00:00Z");
        assert_eq!(one_digit.as_deref(), Some("2026-11-01T07:45:38.500Z mx x"));
        let micros = read("UTC", "2026-11-21T07:45:38.123456+00:00 x", "2026-11-21T08:00:00Z");
        assert_eq!(micros.as_deref(), Some("2026-11-21T07:45:38.123Z x"));
    }

    #[test]
    fn the_year_is_that_of_the_newest_such_day() {
        let december = read("UTC", "Dec 31 23:59:59 mx", "2027-01-01T00:00:05Z");
        assert_eq!(december.as_deref(), Some("2026-12-31T23:59:59.000Z mx"));
        let ahead = read("UTC", "Jan  1 00:00:03 mx", "2026-12-31T23:59:58Z");
        assert_eq!(ahead.as_deref(), Some("2027-01-01T00:00:03.000Z mx"));
        // Written in a zone where it is already the day after tomorrow by this server's clock.
        let zones = read("UTC", "Jan  1 01:59:58 mx", "2026-12-30T23:59:58Z");
        assert_eq!(zones.as_deref(), Some("2027-01-01T01:59:58.000Z mx"));
        let leap = read("UTC", "Feb 29 12:00:00 mx", "2027-03-01T00:00:00Z");
        assert_eq!(leap.as_deref(), Some("2024-02-29T12:00:00.000Z mx"));
    }

    #[test]
    fn the_hour_that_occurs_twice_depends_on_the_line_before() {
        let mut reader = TimeReader::new(TimeZone::get("Europe/Berlin").unwrap());
        let now = at("2026-10-25T03:00:00Z");
        let (first, _) = reader.read("Oct 25 02:30:00 mx", now, Some(at("2026-10-25T00:29:00Z"))).unwrap();
        let (second, _) = reader.read("Oct 25 02:30:00 mx", now, Some(at("2026-10-25T01:29:00Z"))).unwrap();
        assert_eq!(first, at("2026-10-25T00:30:00Z"));
        assert_eq!(second, at("2026-10-25T01:30:00Z"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            lines in proptest::collection::vec(
                "\\PC{0,60}|(Jan|Feb|Mar|Oct|Dec|Xyz) [0-3 ][0-9] ([0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{1,9})?|[0-9:.]{0,10}) \\PC{0,9}|\
                 [0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{1,9})?(Z|[+-][0-9]{2}:?[0-9]{2})? x|[0-9T:Z+. -]{0,40}",
                1..4,
            ),
            (now, before) in (any::<i64>(), proptest::option::of(any::<i64>())),
            zone in proptest::sample::select(vec!["UTC", "Europe/Berlin", "Pacific/Apia", "America/New_York"]),
        ) {
            let mut reader = TimeReader::new(TimeZone::get(zone).unwrap());
            for (line, now) in lines.iter().zip([now, 1_795_600_800_000, 1_772_323_200_000]) {
                let _ = reader.read(line, Timestamp::from_millis(now), before.map(Timestamp::from_millis));
            }
        }
    }
}
