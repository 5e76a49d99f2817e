//! The line before each message.

use jiff::civil::{DateTime, date};
use jiff::tz::{Offset, TimeZone};
use mailapi_model::Timestamp;

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Longest separator; a longer line is text.
pub(super) const MAX_SEPARATOR: usize = 1024;

/// A separator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Separator {
    /// Its time, if it has one.
    pub(super) at: Option<Timestamp>,
}

/// Reads the time of a line such as `From ann@example.org Fri Nov 20 10:15:30 2026`. `None` for a line without a time,
/// which is text. A time without a zone is in UTC.
///
/// The accepted lines are those of Dovecot: a zone or its name before or after the year, the date as in a header, and
/// anything after one sender and a date, such as `remote from host`. After several words, which may be prose, only what
/// programs write may follow the date.
pub(super) fn read(line: &[u8]) -> Option<Timestamp> {
    if !line.starts_with(b"From ") {
        return None;
    }
    // The sender may be in any charset. The date is ASCII.
    let line = String::from_utf8_lossy(line);
    let words: Vec<&str> = line.split_ascii_whitespace().skip(1).collect();
    (0..words.len()).find_map(|at| {
        let dated = asctime(&words[at..]).or_else(|| internet_date(&words[at..]))?;
        (at <= 1 || is_usual_end(dated.rest)).then(|| dated.time()).flatten()
    })
}

/// Returns whether the line is `From ` or `From -` alone, as some versions of Thunderbird separate messages. Only the lines
/// around it say whether it is one.
pub(super) fn is_bare(line: &[u8]) -> bool {
    let rest = line.strip_prefix(b"From ").map(<[u8]>::trim_ascii);
    matches!(rest, Some(b"" | b"-"))
}

/// Returns whether a header field begins here (RFC 5322 section 2.2).
pub(super) fn begins_field(line: &[u8]) -> bool {
    let name = line.iter().position(|byte| *byte == b':').map_or(&[][..], |colon| line[..colon].trim_ascii_end());
    !name.is_empty() && name.iter().all(u8::is_ascii_graphic)
}

/// A date among words.
struct Dated<'a> {
    local: DateTime,
    zone: Option<&'a str>,
    rest: &'a [&'a str],
}

impl Dated<'_> {
    fn time(&self) -> Option<Timestamp> {
        let zone = self.zone.or(self.rest.first().copied());
        let at = TimeZone::fixed(zone.and_then(offset).unwrap_or(Offset::UTC)).to_timestamp(self.local).ok()?;
        Some(Timestamp::from_millis(at.as_millisecond()))
    }
}

/// Reads `Fri Nov 20 10:15:30 2026`, also with a zone before the year.
fn asctime<'a>(words: &'a [&'a str]) -> Option<Dated<'a>> {
    let [name, month, day, time, rest @ ..] = words else { return None };
    let (zone, year, rest) = match rest {
        [year, rest @ ..] if is_year(year) => (None, year, rest),
        [zone, year, rest @ ..] if is_year(year) => (Some(*zone), year, rest),
        _ => return None,
    };
    position(&DAYS, name)?;
    Some(Dated { local: local_time((year, month, day), time)?, zone, rest })
}

/// Reads `Fri, 20 Nov 2026 10:15:30` (RFC 5322 section 3.3).
fn internet_date<'a>(words: &'a [&'a str]) -> Option<Dated<'a>> {
    let has_name = words.first()?.strip_suffix(',').is_some_and(|name| position(&DAYS, name).is_some());
    let [day, month, year, time, rest @ ..] = &words[usize::from(has_name)..] else { return None };
    if !is_year(year) {
        return None;
    }
    Some(Dated { local: local_time((year, month, day), time)?, zone: None, rest })
}

fn is_year(word: &str) -> bool {
    word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn position(names: &[&str], name: &str) -> Option<usize> {
    names.iter().position(|known| known.eq_ignore_ascii_case(name))
}

fn local_time((year, month, day): (&str, &str, &str), time: &str) -> Option<DateTime> {
    let month = position(&MONTHS, month)? + 1;
    let mut clock = time.split(':').map(|part| part.parse::<i8>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next().unwrap_or(Some(0))?);
    // A leap second counts as the last second of its minute.
    let second = if second == 60 { 59 } else { second };
    let (year, month) = (year.parse().ok()?, i8::try_from(month).ok()?);
    DateTime::new(year, month, day.parse().ok()?, hour, minute, second, 0).ok()
}

/// Returns whether programs write such words after the date: zones, their names in parentheses, and the host of UUCP.
fn is_usual_end(mut rest: &[&str]) -> bool {
    let is_name = |word: &str| word.len() <= 5 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    while let [word, after @ ..] = rest {
        rest = match word {
            _ if offset(word).is_some() || is_name(word) => after,
            _ if word.starts_with('(') => match rest.iter().position(|word| word.ends_with(')')) {
                Some(end) => &rest[end + 1..],
                None => return false,
            },
            _ => return matches!(rest, ["remote", "from", _]),
        };
    }
    true
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
            "From now on, until Fri Nov 20 10:15:30 2026 in the evening",
            "From Monday on, 20 Nov 2026 is the day",
            "From ",
            "From -",
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
            ("From a@b  Tue, 1 Jun 2021 10:00:00 +0200", "2021-06-01T08:00:00.000Z"),
            ("From a@b 1 Jun 2021 10:00:00 GMT", "2021-06-01T10:00:00.000Z"),
            ("From a@b Tue Jun  1 10:00:00 2021 remote from host", "2021-06-01T10:00:00.000Z"),
            ("From a b@c Tue Jun  1 10:00:00 2021 remote from host", "2021-06-01T10:00:00.000Z"),
            ("From a@b Tue Jun  1 10:00:00 2021 +0200 (CEST)", "2021-06-01T08:00:00.000Z"),
            ("From a b@c Tue Jun  1 10:00:00 2021 +0200 (Central European Time)", "2021-06-01T08:00:00.000Z"),
            ("From a@b tue jun  1 10:00:60 cest 2021", "2021-06-01T10:00:59.000Z"),
            ("From ann Fri Nov 20 10:15:30 2026 and more words", "2026-11-20T10:15:30.000Z"),
        ] {
            assert_eq!(read_text(line).as_deref(), Some(at), "{line}");
        }
    }

    #[test]
    fn a_sender_may_be_in_any_charset() {
        assert!(read(b"From J\xfcrgen@example.org Fri Nov 20 10:15:30 2026").is_some());
    }

    #[test]
    fn bare_separators_and_fields_are_recognised() {
        for line in ["From ", "From -", "From - ", "From   "] {
            assert!(is_bare(line.as_bytes()), "{line:?}");
        }
        for line in ["From", "From --", "From me", ">From ", " From "] {
            assert!(!is_bare(line.as_bytes()), "{line:?}");
        }
        for (line, is_field) in
            [("a:", true), ("X-Y : z", true), (":", false), ("a b: c", false), ("", false), ("a", false)]
        {
            assert_eq!(begins_field(line.as_bytes()), is_field, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read_without_a_panic(
            line in "From ([a-z]{0,3} |(Mon|Nov|Feb),? |[0-9]{1,5}[ :]|[+-][0-9]{0,5} |[()]|remote from |\\PC){0,12}",
        ) {
            let _ = read(line.as_bytes());
            let _ = (is_bare(line.as_bytes()), begins_field(line.as_bytes()));
        }

        #[test]
        fn a_date_has_the_same_time_in_every_form(seconds in 0_i64..4_000_000_000, zone in "|[+-](0[0-9]|1[0-4])(00|30)| EST") {
            let at = Timestamp::from_seconds(seconds);
            let words = write(at);
            let [_, _, name, month, day, time, year] = words.split_ascii_whitespace().collect::<Vec<_>>()[..] else { panic!() };
            let zone = zone.trim();
            let expected = read(format!("From a@b {name} {month} {day} {time} {year} {zone}").as_bytes());
            prop_assert!(expected.is_some());
            for line in [
                format!("From a@b {name} {month} {day} {time} {zone} {year}"),
                format!("From a@b {name}, {day} {month} {year} {time} {zone}"),
                format!("From \u{fc} b {name} {month} {day} {time} {year} {zone} (zone)"),
            ] {
                prop_assert_eq!(read(line.as_bytes()), expected, "{}", line);
            }
        }

        #[test]
        fn every_time_comes_back(seconds in -2_000_000_000_i64..200_000_000_000) {
            let at = Timestamp::from_seconds(seconds);
            prop_assert_eq!(read(write(at).trim_end().as_bytes()), Some(at));
        }
    }
}
