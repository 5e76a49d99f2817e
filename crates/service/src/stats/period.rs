//! Periods of statistics.

use std::time::Duration;

use mailapi_model::{Timestamp, Violations};
use mailapi_store::{Hours, Span};

use super::{GroupBy, StatsLimits};

/// The requested period, including its start and excluding its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PeriodQuery {
    /// The start; by default [`StatsLimits::default_period`] before now.
    pub start: Option<Timestamp>,
    /// The end; by default now.
    pub end: Option<Timestamp>,
}

/// The period of a response. Counts are stored by the hour: the hours of its start and end count as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// The start.
    pub start: Timestamp,
    /// The end.
    pub end: Timestamp,
}

impl PeriodQuery {
    /// Resolves defaults, and returns the period with its hours.
    pub(super) fn resolve(
        self,
        now: Timestamp,
        limits: &StatsLimits,
        group_by: GroupBy,
    ) -> Result<(Period, Hours), Violations> {
        let start = self.start.unwrap_or_else(|| now.minus(limits.default_period));
        let end = self.end.unwrap_or(now);
        // Include the current moment in a period that ends now.
        let behind = if self.end.is_none() { end.plus(Duration::from_millis(1)) } else { end };
        // An end date includes its whole day, so the day before the start ends exactly at the start.
        if behind <= start {
            return Err(Violations::of("end_date", "must be later than start_date"));
        }
        let hours = Hours::around(start, behind);
        if hours.count(Span::Day) > limits.max_days {
            let message = format!("must be at most {} days after start_date", limits.max_days);
            return Err(Violations::of("start_date", message));
        }
        if group_by == GroupBy::Hour && hours.count(Span::Hour) > limits.max_hours {
            let message = format!("can be hour for periods of at most {} hours", limits.max_hours);
            return Err(Violations::of("group_by", message));
        }
        Ok((Period { start, end }, hours))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(text: &str) -> Timestamp {
        Timestamp::parse_date_or_time(text).unwrap()
    }

    fn resolve(start: Option<&str>, end: Option<&str>, group_by: GroupBy) -> Result<(Period, Hours), String> {
        let end = end.map(|text| Timestamp::parse_end(text).unwrap());
        let query = PeriodQuery { start: start.map(moment), end };
        let resolved = query.resolve(moment("2026-11-20T10:00:00Z"), &StatsLimits::default(), group_by);
        resolved.map_err(|violations| violations.all()[0].field.clone())
    }

    #[test]
    fn a_reversed_or_endless_period_is_refused() {
        assert_eq!(resolve(Some("2026-11-20"), Some("2026-11-19"), GroupBy::Day).unwrap_err(), "end_date");
        assert_eq!(resolve(None, Some("2026-11-01"), GroupBy::Day).unwrap_err(), "end_date");
        let moment = Some("2026-11-20T10:00:00Z");
        assert_eq!(resolve(moment, moment, GroupBy::Day).unwrap_err(), "end_date");
        assert!(resolve(moment, None, GroupBy::Day).is_ok(), "what happens just now is in it");
        assert_eq!(resolve(Some("2026-11-21"), None, GroupBy::Day).unwrap_err(), "end_date");
        assert_eq!(resolve(Some("0001-01-01"), Some("9999-12-30"), GroupBy::Domain).unwrap_err(), "start_date");
        assert_eq!(resolve(Some("2024-11-20"), None, GroupBy::Hour).unwrap_err(), "group_by");
        assert!(resolve(Some("2024-11-20"), None, GroupBy::Day).is_ok());
    }

    #[test]
    fn a_period_is_the_last_seven_days_up_to_this_moment() {
        let (period, hours) = resolve(None, None, GroupBy::Hour).unwrap();
        assert_eq!((period.start, period.end), (moment("2026-11-13T10:00:00Z"), moment("2026-11-20T10:00:00Z")));
        assert_eq!(hours.each(Span::Hour).last(), Some(moment("2026-11-20T10:00:00Z")), "the hour that has just begun");
        assert_eq!(hours.count(Span::Hour), 7 * 24 + 1);
    }

    #[test]
    fn an_end_time_is_exclusive_and_an_end_day_inclusive() {
        let count = |end| {
            let (_, hours) = resolve(Some("2026-11-19"), Some(end), GroupBy::Hour).unwrap();
            (hours.count(Span::Hour), hours.count(Span::Day))
        };
        assert_eq!(count("2026-11-20T00:00:00Z"), (24, 1));
        assert_eq!(count("2026-11-19"), (24, 1));
        assert_eq!(count("2026-11-20"), (48, 2));
    }
}
