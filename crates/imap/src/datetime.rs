//! Dates in IMAP's form (RFC 3501 section 9, `date` and `date-time`).

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Formats `17-Jul-1996 02:44:25 +0000`: in UTC, with the day padded to two characters by a space.
pub(crate) fn format_date_time(at: Timestamp) -> String {
    let at = Offset::UTC.to_datetime(at);
    format!(
        "{:>2}-{}-{:04} {:02}:{:02}:{:02} +0000",
        at.day(),
        month_name(at.month()),
        at.year(),
        at.hour(),
        at.minute(),
        at.second()
    )
}

fn month_name(month: i8) -> &'static str {
    usize::try_from(month - 1).ok().and_then(|at| MONTHS.get(at)).copied().unwrap_or("Jan")
}

/// Reads `date-time` without its quotes: `" 7-Jul-1996 02:44:25 -0700"`.
pub(crate) fn parse_date_time(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.trim_start_matches(' ').split_once(' ')?;
    let (time, zone) = rest.split_once(' ')?;
    let date = parse_date(date)?;
    let [a, b, b':', c, d, b':', e, f] = *time.as_bytes() else { return None };
    let (hour, minute, second) = (two_digits([a, b])?, two_digits([c, d])?, two_digits([e, f])?);
    // A leap second counts as the last second of its minute.
    let local = DateTime::new(date.year(), date.month(), date.day(), hour, minute, second.min(59), 0).ok()?;
    parse_zone(zone)?.to_timestamp(local).ok()
}

fn parse_zone(zone: &str) -> Option<Offset> {
    let [sign, a, b, c, d] = *zone.as_bytes() else { return None };
    let (hours, minutes) = (two_digits([a, b])?, two_digits([c, d])?);
    let seconds = i32::from(hours) * 3600 + i32::from(minutes) * 60;
    match sign {
        b'+' => Offset::from_seconds(seconds).ok(),
        b'-' => Offset::from_seconds(-seconds).ok(),
        _ => None,
    }
}

fn two_digits(digits: [u8; 2]) -> Option<i8> {
    let [tens, ones] = digits.map(|digit| digit.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| i8::try_from(tens * 10 + ones).ok()).flatten()
}

/// Reads `date` without quotes: `1-Feb-1994`.
pub(crate) fn parse_date(text: &str) -> Option<Date> {
    let mut parts = text.split('-');
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    let digits =
        |text: &str, max: usize| (1..=max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if parts.next().is_some() || !digits(day, 2) || !digits(year, 4) || year.len() != 4 {
        return None;
    }
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? + 1;
    Date::new(year.parse().ok()?, i8::try_from(month).ok()?, day.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn broken_dates_are_refused() {
        for text in ["", "1-Feb", "31-Feb-1994", "0-Feb-1994", "1-Foo-1994", "1-Feb-94", "+1-Feb-1994", "1-Feb-1994-1"]
        {
            assert_eq!(parse_date(text), None, "{text}");
        }
        for text in [
            "",
            "1-Feb-1994",
            "1-Feb-1994 1:00:00 +0000",
            "1-Feb-1994 24:00:00 +0000",
            "1-Feb-1994 01:00:00 +000\u{e9}",
            "1-Feb-1994 01:00:00 0000",
        ] {
            assert_eq!(parse_date_time(text), None, "{text}");
        }
    }

    #[test]
    fn dates_are_kept_in_utc() {
        let at = parse_date_time(" 7-jul-1996 02:44:25 -0700").unwrap();
        assert_eq!(format_date_time(at), " 7-Jul-1996 09:44:25 +0000");
    }

    proptest! {
        #[test]
        fn every_second_comes_back(seconds in 0i64..7_000_000_000) {
            let at = Timestamp::from_second(seconds).unwrap();
            prop_assert_eq!(parse_date_time(&format_date_time(at)), Some(at));
        }

        #[test]
        fn arbitrary_text_never_panics(
            text in prop_oneof![
                1 => any::<String>(),
                4 => "[ 0-3]?[0-9]-(Jan|feb|DEC|Xyz)-[0-9]{4}( [0-2][0-9]:[0-6][0-9]:[0-6][0-9] [+-][0-9]{4})?\\PC?",
            ],
        ) {
            parse_date(&text);
            parse_date_time(&text);
        }
    }
}
