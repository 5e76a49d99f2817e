//! Reads date fields (RFC 5322 section 3.3) in the spellings that occur: without zone, with the zone before the year as
//! `date` prints it, with the month first as `asctime` does, with hyphens, and ISO 8601. Words decide by their form what
//! they mean, not by their place. What is missing, twice or out of range makes the field unreadable, so that a wrong day
//! is never shown.

use std::borrow::Cow;

use mail_parser::DateTime;

/// The time of the field, with its offset from UTC.
pub(super) fn read(text: &str) -> Option<DateTime> {
    let mut found = Found::default();
    let words = without_comments(text);
    for word in words.split(|c: char| c.is_whitespace() || c == ',') {
        found.add(word.trim_matches(|c| matches!(c, '.' | '"' | '\'')))?;
    }
    found.date_time()
}

/// Removes comments, which nest (RFC 5322 section 3.2.2). An open one ends with the text.
pub(super) fn without_comments(text: &str) -> Cow<'_, str> {
    if !text.contains(['(', ')']) {
        return Cow::Borrowed(text);
    }
    let (mut depth, mut is_escaped) = (0_usize, false);
    let mut kept = String::with_capacity(text.len());
    for c in text.chars() {
        if std::mem::take(&mut is_escaped) {
            continue;
        }
        match c {
            '\\' if depth > 0 => is_escaped = true,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            c if depth == 0 => kept.push(c),
            _ => {}
        }
        // A comment separates words.
        if matches!(c, '(' | ')') {
            kept.push(' ');
        }
    }
    Cow::Owned(kept)
}

/// What the words have said so far.
#[derive(Debug, Default)]
struct Found {
    year: Option<u16>,
    month: Option<u8>,
    day: Option<u8>,
    time: Option<DayTime>,
    /// Minutes east of UTC.
    offset: Option<i16>,
    /// Whether an offset may still follow, as in `GMT+0200`.
    is_named_zone: bool,
}

#[derive(Debug, Clone, Copy)]
struct DayTime {
    hour: u8,
    minute: u8,
    second: u8,
}

impl Found {
    /// Reads one word; `None` if the field means nothing certain.
    fn add(&mut self, word: &str) -> Option<()> {
        let Some(first) = word.chars().next() else { return Some(()) };
        if self.is_complete() {
            return Some(());
        }
        if self.time.is_some() && (first == '+' || first == '-') {
            return self.add_offset(word);
        }
        // ISO 8601 joins date and time.
        let is_iso = |(date, time): &(&str, &str)| date.len() >= 8 && time.starts_with(|c: char| c.is_ascii_digit());
        if let Some((date, time)) = word.split_once(['T', 't']).filter(is_iso) {
            self.add_whole_date(date)?;
            return self.add_time(time);
        }
        if word.contains(':') {
            return self.add_time(word);
        }
        if first.is_ascii_digit() {
            return self.add_digits(word);
        }
        self.add_name(word)
    }

    /// After date, time and offset, words are remarks.
    fn is_complete(&self) -> bool {
        self.year.is_some() && self.time.is_some() && self.offset.is_some() && !self.is_named_zone
    }

    fn add_digits(&mut self, word: &str) -> Option<()> {
        if word.contains(['-', '/']) {
            return self.add_whole_date(word);
        }
        // Some write the time with dots.
        if word.contains('.') && self.time.is_none() && self.day.is_some() {
            return self.add_time(&word.replace('.', ":"));
        }
        let number: u16 = word.parse().ok()?;
        match word.len() {
            1 | 2 if self.day.is_none() => self.day = Some(u8::try_from(number).ok()?),
            2..=4 if self.year.is_none() && self.month.is_some() && self.day.is_some() => {
                self.year = Some(full_year(number, word.len()));
            }
            // An offset without a sign; only zero is certain.
            4 if number == 0 && self.time.is_some() => self.set_offset(0),
            _ => return None,
        }
        Some(())
    }

    /// Reads `20-Nov-2026`, `2026-11-20` or `2026/11/20`. The order of three numbers is certain only if the year leads.
    fn add_whole_date(&mut self, word: &str) -> Option<()> {
        let parts: Vec<&str> = word.split(['-', '/']).collect();
        let [one, two, three] = parts[..] else { return None };
        if self.day.is_some() || self.month.is_some() {
            return None;
        }
        let (year, month, day) = match month(two) {
            Some(month) => (three, month, one),
            None if one.len() == 4 => (one, two.parse().ok()?, three),
            None => return None,
        };
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(year) || !is_number(day) || !(2..=4).contains(&year.len()) {
            return None;
        }
        self.year = Some(full_year(year.parse().ok()?, year.len()));
        (self.month, self.day) = (Some(month), Some(day.parse().ok()?));
        Some(())
    }

    /// Reads `10:00`, `10:00:30.5`, and what is written against it: `10:00:30Z`, `10:00:30+0200`, `10:00PM`.
    fn add_time(&mut self, word: &str) -> Option<()> {
        if self.time.is_some() {
            return None;
        }
        let end = word.find(|c: char| !c.is_ascii_digit() && !matches!(c, ':' | '.')).unwrap_or(word.len());
        let (time, behind) = word.split_at(end);
        let mut numbers = time.split(':');
        let hour = two_digits(numbers.next()?)?;
        let minute = two_digits(numbers.next()?)?;
        // A fraction of a second is left out.
        let second = numbers.next().map_or(Some(0), |second| two_digits(second.split('.').next()?))?;
        // A Unix timestamp cannot represent a leap second (RFC 5322 section 3.3).
        self.time = Some(DayTime { hour, minute, second: if second == 60 { 59 } else { second } });
        if numbers.next().is_some() {
            return None;
        }
        self.add(behind)
    }

    /// Reads `+0200`, `-02:00`, `-600` and `+2`.
    fn add_offset(&mut self, word: &str) -> Option<()> {
        let (sign, digits) = word.split_at(1);
        let (hours, minutes) = match digits.split_once(':') {
            Some((hours, minutes)) => (two_digits(hours)?, two_digits(minutes)?),
            None if digits.len() <= 2 => (two_digits(digits)?, 0),
            None => {
                let (hours, minutes) = digits.split_at_checked(digits.len().checked_sub(2)?)?;
                (two_digits(hours)?, two_digits(minutes)?)
            }
        };
        if hours > 23 || minutes > 59 {
            return None;
        }
        let offset = i16::from(hours) * 60 + i16::from(minutes);
        // The offset behind a name counts.
        self.offset = None;
        self.set_offset(if sign == "-" { -offset } else { offset });
        Some(())
    }

    fn set_offset(&mut self, offset: i16) {
        (self.offset, self.is_named_zone) = (self.offset.or(Some(offset)), false);
    }

    fn add_name(&mut self, word: &str) -> Option<()> {
        let end = word.find(|c: char| !c.is_alphabetic()).unwrap_or(word.len());
        let (name, behind) = word.split_at(end);
        match (month(name), &mut self.time) {
            (Some(month), _) if self.month.is_none() => self.month = Some(month),
            (_, Some(time)) if name.eq_ignore_ascii_case("am") || name.eq_ignore_ascii_case("pm") => {
                let is_afternoon = name.eq_ignore_ascii_case("pm");
                if !(1..=12).contains(&time.hour) {
                    return None;
                }
                time.hour = time.hour % 12 + if is_afternoon { 12 } else { 0 };
            }
            (_, Some(_)) if self.offset.is_none() => {
                (self.offset, self.is_named_zone) = (Some(zone(name)), true);
            }
            // The day of the week, in any language: it says nothing more.
            _ => {}
        }
        if !name.is_empty() && behind.starts_with(['+', '-']) { self.add(behind) } else { Some(()) }
    }

    /// A field without zone means UTC, as an unknown one does (RFC 5322 section 4.3).
    fn date_time(self) -> Option<DateTime> {
        let (DayTime { hour, minute, second }, offset) = (self.time?, self.offset.unwrap_or_default());
        let (tz_hour, tz_minute) = (offset.unsigned_abs() / 60, offset.unsigned_abs() % 60);
        let date = DateTime {
            year: self.year?,
            month: self.month?,
            day: self.day?,
            hour,
            minute,
            second,
            tz_before_gmt: offset < 0,
            tz_hour: u8::try_from(tz_hour).ok()?,
            tz_minute: u8::try_from(tz_minute).ok()?,
        };
        (date.is_valid() && is_in_calendar(&date)).then_some(date)
    }
}

/// Returns whether the month has that day. Otherwise the timestamp would silently fall into the next month.
fn is_in_calendar(date: &DateTime) -> bool {
    DateTime::from_timestamp(date.to_timestamp_local()).day == date.day
}

fn two_digits(text: &str) -> Option<u8> {
    let is_number = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Completes a year of two or three digits (RFC 5322 section 4.3).
const fn full_year(year: u16, digits: usize) -> u16 {
    match (digits, year) {
        (2, 0..=49) => year + 2000,
        (2 | 3, _) => year + 1900,
        _ => year,
    }
}

/// Returns the month of its English name, of which three letters are enough.
fn month(name: &str) -> Option<u8> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let name = name.to_ascii_lowercase();
    let is_it = |month: &&str| name.len() >= 3 && month.starts_with(&name);
    let place = MONTHS.iter().position(is_it)?;
    u8::try_from(place + 1).ok()
}

/// Returns the offset of a zone name in minutes. Unknown names, and the military ones that RFC 822 defined wrongly, mean
/// UTC (RFC 5322 section 4.3).
fn zone(name: &str) -> i16 {
    let hours = match name.to_ascii_uppercase().as_str() {
        "NZDT" => 13,
        "NZST" => 12,
        "AEDT" => 11,
        "AEST" => 10,
        "JST" | "KST" => 9,
        "HKT" | "SGT" | "AWST" => 8,
        "MSK" | "EEST" => 3,
        "CEST" | "MESZ" | "EET" | "SAST" => 2,
        "CET" | "MEZ" | "BST" | "WEST" => 1,
        "BRT" | "ART" | "ADT" => -3,
        "EDT" | "AST" => -4,
        "EST" | "CDT" => -5,
        "CST" | "MDT" => -6,
        "MST" | "PDT" => -7,
        "PST" | "AKDT" => -8,
        "AKST" => -9,
        "HST" => -10,
        _ => 0,
    };
    hours * 60
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> Option<String> {
        read(text).map(|date| mailapi_model::Timestamp::from_seconds(date.to_timestamp()).to_string())
    }

    #[test]
    fn the_spellings_of_one_moment_are_read() {
        for text in [
            "Fri, 20 Nov 2026 10:00:00 +0000",
            "Fri, 20 Nov 2026 10:00:00",
            "20 Nov 2026 10:00",
            "Fri, 20 Nov 2026 10:00:00 -0000 (UTC)",
            "Fri, 20 Nov 2026 04:00:00 -600",
            "Fri, 20 Nov 2026 12:00:00 +2",
            "Fri, 20 Nov 2026 12:00:00 +02:00",
            "Fri, 20 Nov 2026 12:00:00+0200",
            "Fri Nov 20 10:00:00 2026",
            "Fri Nov 20 10:00:00 UTC 2026",
            "Fri Nov 20 11:00:00 CET 2026",
            "Fri Nov 20 12:00:00 +0200 2026",
            "20-Nov-2026 10:00:00 +0000",
            "Fri, 20-Nov-26 10:00:00 GMT",
            "2026-11-20T10:00:00Z",
            "2026-11-20T12:00:00.123+02:00",
            "2026-11-20 10:00:00 +0000",
            "2026/11/20 10:00",
            "20-November-2026 10:00",
            "November 20, 2026 10:00:00 AM",
            "Nov 20, 2026, 5:00 AM EST",
            "Fri, 20 Nov 2026 10.00.00 +0000",
            "ven., 20 Nov. 2026 10:00:00 +0000",
            "Fri, 20 Nov 126 10:00:00 GMT",
            "Fri,20 Nov 2026 10:00:00 GMT",
            "Fri, 20 (twentieth) Nov 2026 10:00:00 XYZ",
            "Fri, 20 (a \\) 21 (b)) Nov 2026 10:00:00",
            "Fri, 20 Nov 2026 10:00:00 +0000 remark 7",
            "Fri, 20 Nov 2026 12:00:00 GMT+0200",
            "Fri, 20 Nov 2026 12:00:00 GMT +02:00",
            "Fri, 20 Nov 2026 10:00:00 0000",
        ] {
            assert_eq!(shown(text).as_deref(), Some("2026-11-20T10:00:00.000Z"), "{text}");
        }
    }

    #[test]
    fn what_could_mean_another_day_is_no_date() {
        for text in [
            "20/11/2026 10:00",
            "11-20-2026 10:00",
            "20 Nov 2026 10:00:00 +9900",
            "20 Nov 2026 10:00:00 +00000",
            "20 Nov 2026 10:00:00 0200",
            "20 21 Nov 2026 10:00",
            "20 Nov 2026 10:00 11:00",
            "20 Nov 2026 25:00",
            "20 Nov 2026 13:00 PM",
            "20 2026 10:00",
            "Nov 2026 10:00",
            "20 Nov 10:00",
            "1795168800",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_date_is_the_same_in_every_form(seconds in 0_i64..4_102_444_800, minutes in -840_i16..=840) {
            const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
            const MONTHS: [&str; 12] =
                ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
            let local = DateTime::from_timestamp(seconds + i64::from(minutes) * 60);
            let DateTime { year, month, day, hour, minute, second, .. } = local;
            prop_assume!((1970..2100).contains(&year));
            let (name, week) = (MONTHS[usize::from(month) - 1], DAYS[usize::from(local.day_of_week())]);
            let sign = if minutes < 0 { '-' } else { '+' };
            let (hours, rest) = (minutes.unsigned_abs() / 60, minutes.unsigned_abs() % 60);
            let time = format!("{hour:02}:{minute:02}:{second:02}");
            for text in [
                format!("{week}, {day:02} {name} {year} {time} {sign}{hours:02}{rest:02}"),
                format!("{week} {name} {day:2} {time} {sign}{hours:02}{rest:02} {year}"),
                format!("{day}-{name}-{year} {time} {sign}{hours:02}:{rest:02}"),
                format!("{year}-{month:02}-{day:02}T{time}{sign}{hours:02}:{rest:02}"),
            ] {
                prop_assert_eq!(read(&text).map(|date| date.to_timestamp()), Some(seconds), "{}", text);
            }
        }

        #[test]
        fn any_text_is_a_date_or_none(text in "([0-9]{1,4}|[-+:./,() TZ]|Nov|GMT|am|\\PC){0,30}") {
            let _ = read(&text);
        }
    }
}
