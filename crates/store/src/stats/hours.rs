//! Hours and days in UTC, the periods of the counts.

use mailapi_model::Timestamp;

/// The length of a counting period. Periods start at full hours and days in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Span {
    /// 60 minutes.
    Hour,
    /// 24 hours.
    Day,
}

impl Span {
    pub(crate) const ALL: [Self; 2] = [Self::Hour, Self::Day];

    /// Returns the name in the database.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    const fn millis(self) -> i64 {
        match self {
            Self::Hour => 3_600_000,
            Self::Day => 24 * 3_600_000,
        }
    }

    /// Returns the start of the hour or day that contains `at`.
    #[must_use]
    pub const fn begin_of(self, at: Timestamp) -> Timestamp {
        Timestamp::from_millis(self.floor(at.as_millis()))
    }

    const fn floor(self, millis: i64) -> i64 {
        millis - millis.rem_euclid(self.millis())
    }

    const fn ceil(self, millis: i64) -> i64 {
        self.floor(millis + self.millis() - 1)
    }
}

/// Hours or days of one kind, as a half-open range in milliseconds.
pub(crate) type Piece = (Span, i64, i64);

/// A period of whole hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hours {
    start: i64,
    end: i64,
}

impl Hours {
    /// The empty period.
    pub const NONE: Self = Self { start: 0, end: 0 };

    /// Returns the hours that overlap the half-open period from `start` to `end`; none if that is empty.
    #[must_use]
    pub const fn around(start: Timestamp, end: Timestamp) -> Self {
        if start.as_millis() >= end.as_millis() {
            return Self::NONE;
        }
        Self { start: Span::Hour.floor(start.as_millis()), end: Span::Hour.ceil(end.as_millis()) }
    }

    /// Returns the hours that end after `at`.
    #[must_use]
    pub const fn since(self, at: Timestamp) -> Self {
        let first = Span::Hour.floor(at.as_millis());
        Self { start: if first > self.start { first } else { self.start }, ..self }
    }

    /// Returns the number of hours, or of days that contain one of the hours.
    #[must_use]
    pub const fn count(self, span: Span) -> u64 {
        if self.start >= self.end {
            return 0;
        }
        ((span.ceil(self.end) - span.floor(self.start)) / span.millis()).unsigned_abs()
    }

    /// Returns the starts of the hours, or of the days that contain one of the hours, in order.
    pub fn each(self, span: Span) -> impl Iterator<Item = Timestamp> {
        let begins = (span.floor(self.start)..).step_by(usize::try_from(span.millis()).unwrap_or(usize::MAX));
        begins.take(usize::try_from(self.count(span)).unwrap_or(usize::MAX)).map(Timestamp::from_millis)
    }

    /// Returns the fewest pieces that make up the period: whole days, and the hours before and after them.
    pub(crate) fn pieces(self) -> Vec<Piece> {
        let (first_day, last_day) = (Span::Day.ceil(self.start), Span::Day.floor(self.end));
        let pieces = if first_day < last_day {
            vec![
                (Span::Hour, self.start, first_day),
                (Span::Day, first_day, last_day),
                (Span::Hour, last_day, self.end),
            ]
        } else {
            vec![(Span::Hour, self.start, self.end)]
        };
        pieces.into_iter().filter(|(_, start, end)| start < end).collect()
    }

    /// Returns the period as hours only.
    pub(crate) fn piece_of_hours(self) -> Vec<Piece> {
        if self.start < self.end { vec![(Span::Hour, self.start, self.end)] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hours(start: &str, end: &str) -> Hours {
        let moment = |text| Timestamp::parse_date_or_time(text).unwrap();
        Hours::around(moment(start), moment(end))
    }

    #[test]
    fn an_empty_or_reversed_period_has_no_hours() {
        for (start, end) in [("2026-11-20", "2026-11-20"), ("2026-11-20T10:15:00Z", "2026-11-20T10:10:00Z")] {
            let none = hours(start, end);
            assert_eq!((none.count(Span::Hour), none.count(Span::Day), none.pieces().len()), (0, 0, 0));
        }
    }

    #[test]
    fn the_hours_in_which_a_period_begins_and_ends_are_whole() {
        let period = hours("2026-11-20T22:59:59.999Z", "2026-11-21T01:00:00.001Z");
        let begins: Vec<String> = period.each(Span::Hour).map(|at| at.to_string()[..13].to_owned()).collect();
        assert_eq!(begins, ["2026-11-20T22", "2026-11-20T23", "2026-11-21T00", "2026-11-21T01"]);
        assert_eq!(period.each(Span::Day).count(), 2);
        assert_eq!(hours("2026-11-20T22:00:00Z", "2026-11-21T00:00:00Z").count(Span::Day), 1);
    }

    #[test]
    fn a_week_is_its_whole_days_and_the_hours_around_them() {
        let pieces = hours("2026-11-13T10:15:00Z", "2026-11-20T10:15:00Z").pieces();
        let shown: Vec<(Span, i64)> =
            pieces.iter().map(|(span, start, end)| (*span, (end - start) / span.millis())).collect();
        assert_eq!(shown, [(Span::Hour, 14), (Span::Day, 6), (Span::Hour, 11)]);
        assert_eq!(hours("2026-11-13", "2026-11-20").pieces().len(), 1);
    }

    #[test]
    fn the_ends_of_the_calendar_are_periods_too() {
        let all = Hours::around(Timestamp::from_millis(i64::MIN), Timestamp::from_millis(i64::MAX));
        assert_eq!(u64::try_from(all.each(Span::Day).count()).unwrap(), all.count(Span::Day));
    }

    proptest! {
        #[test]
        fn the_pieces_are_the_period_without_gap_or_overlap(start in -500_i64..500, length in 0_i64..500) {
            let minute = |n: i64| Timestamp::from_seconds(n * 60 * 7);
            let period = Hours::around(minute(start), minute(start + length));
            let mut at = period.start;
            for (span, start, end) in period.pieces() {
                prop_assert_eq!(start, at);
                prop_assert!(start < end && start % span.millis() == 0 && end % span.millis() == 0);
                at = end;
            }
            prop_assert_eq!(at, period.end);
            prop_assert_eq!(u64::try_from(period.each(Span::Hour).count()).unwrap(), period.count(Span::Hour));
        }
    }
}
