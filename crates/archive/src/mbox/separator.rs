//! The line before each message.

use jiff::civil::{DateTime, date};
use jiff::tz::{Offset, TimeZone};
use mailapi_model::Timestamp;

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Longest separator; a longer line is text.
pub(super) const MAX_SEPARATOR: usize = 1024;

/// Reads the time of a line such as `From ann@example.org Fri Nov 20 10:15:30 2026`, with an optional zone such as
/// `+0100` beside the year. `None` for a line without a time, which is text. A time without a zone is in UTC.
pub(super) fn read(line: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(line).ok()?.strip_prefix("From ")?;
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    // The sender may contain spaces, so the time is sought from the end.
    let (at, _) = words.iter().enumerate().rev().find(|(_, word)| DAYS.contains(word))?;
    let [month, day, time, rest @ ..] = words.get(at + 1..)? else { return None };
    let (year, zone) = match rest {
        [year] => (*year, None),
        [one, other] if one.len() == 4 && one.bytes().all(|byte| byte.is_ascii_digit()) => (*one, Some(*other)),
        [zone, year] => (*year, Some(*zone)),
        _ => return None,
    };
    let month = MONTHS.iter().position(|name| name == month)? + 1;
    let mut clock = time.split(':').map(|part| part.parse::<i8>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next().unwrap_or(Some(0))?);
    let local =
        DateTime::new(year.parse().ok()?, i8::try_from(month).ok()?, day.parse().ok()?, hour, minute, second, 0)
            .ok()?;
    let at = TimeZone::fixed(zone.and_then(offset).unwrap_or(Offset::UTC)).to_timestamp(local).ok()?;
    Some(Timestamp::from_millis(at.as_millisecond()))
}

/// Reads a zone such as `+0100`. Names of zones are ambiguous, and mean UTC.
fn offset(zone: &str) -> Option<Offset> {
    let (sign, digits) = match zone.as_bytes().first()? {
        b'+' => (1, &zone[1..]),
        b'-' => (-1, &zone[1..]),
        _ => return None,
    };
    let number: i32 = digits.parse().ok().filter(|number| (0..2400).contains(number) && digits.len() == 4)?;
    Offset::from_seconds(sign * (number / 100 * 3600 + number % 100 * 60)).ok()
}

/// Writes a separator in UTC.
pub(super) fn write(at: Timestamp) -> String {
    let epoch = date(1970, 1, 1).at(0, 0, 0, 0);
    let time = jiff::Timestamp::from_second(at.as_seconds()).map_or(epoch, |at| TimeZone::UTC.to_datetime(at));
    let day = DAYS[usize::try_from(time.weekday().to_monday_zero_offset()).unwrap_or_default()];
    let month = MONTHS[usize::try_from(time.month() - 1).unwrap_or_default()];
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    format!("From MAILER-DAEMON {day} {month} {:2} {hour:02}:{minute:02}:{second:02} {:04}\n", time.day(), time.year())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_text(line: &str) -> Option<String> {
        read(line.as_bytes()).map(|at| at.to_string())
    }

    #[test]
    fn text_that_begins_with_from_separates_nothing() {
        for line in [
            "From the beginning, at 10:15",
            "From ann@example.org",
            "From  Fri Nov 20",
            ">From ann@example.org Fri Nov 20 10:15:30 2026",
            "From ann Fri Nov 31 10:15:30 2026",
            "From ann Fri Nov 20 25:15:30 2026",
            "From ann Fri Nov 20 10:15:30 2026 and more words",
        ] {
            assert_eq!(read_text(line), None, "{line}");
        }
    }

    #[test]
    fn separators_of_other_programs_are_read() {
        for (line, at) in [
            ("From ann@example.org Fri Nov 20 10:15:30 2026", "2026-11-20T10:15:30.000Z"),
            ("From - Fri Nov 20 10:15:30 2026", "2026-11-20T10:15:30.000Z"),
            ("From \"a b\"@c.example  Sun Nov  1 10:15 2026", "2026-11-01T10:15:00.000Z"),
            ("From ann Fri Nov 20 10:15:30 +0130 2026", "2026-11-20T08:45:30.000Z"),
            ("From ann Fri Nov 20 10:15:30 2026 -0800", "2026-11-20T18:15:30.000Z"),
            ("From ann Fri Nov 20 10:15:30 EST 2026", "2026-11-20T10:15:30.000Z"),
            ("From Fri Sat Nov 20 10:15:30 2026", "2026-11-20T10:15:30.000Z"),
        ] {
            assert_eq!(read_text(line).as_deref(), Some(at), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read_without_a_panic(
            line in "From ([a-z]{0,3} |(Mon|Nov|Feb) |[0-9]{1,5}[ :]|[+-][0-9]{0,5} |\\PC){0,12}",
        ) {
            let _ = read(line.as_bytes());
        }

        #[test]
        fn every_time_comes_back(seconds in -2_000_000_000_i64..200_000_000_000) {
            let at = Timestamp::from_seconds(seconds);
            prop_assert_eq!(read(write(at).trim_end().as_bytes()), Some(at));
        }
    }
}
