//! Fast parsers for the common forms of fields, in one pass. Any other form returns `None` and is left to
//! mail-parser. Tests check that both agree.

use mail_parser::DateTime;

use super::described::{DescribedParameter, DescribedPart};
use super::encoded_word;
use super::fields::{self, Parameterized, one_line};
use super::limits::Limits;
use super::structure::Part;
use super::transfer::TransferEncoding;
use crate::Correspondent;

/// Parses people as `Name <address>`, `"Name" <address>` or `address`, separated by commas.
pub(super) fn correspondents(text: &str) -> Option<Vec<Correspondent>> {
    if !is_plain(text.as_bytes()) {
        return None;
    }
    let (mut people, mut rest) = (Vec::new(), text);
    loop {
        let (person, after) = correspondent(rest.trim_ascii_start())?;
        people.push(person);
        let after = after.trim_ascii_start();
        if after.is_empty() {
            return Some(people);
        }
        rest = after.strip_prefix(',')?;
    }
}

/// Parses the first person; returns the rest too.
fn correspondent(text: &str) -> Option<(Correspondent, &str)> {
    let (name, rest) = match text.strip_prefix('"') {
        Some(quoted) => {
            let (name, after) = quoted.split_once('"')?;
            // Escapes are left to mail-parser.
            (Some(name).filter(|name| !name.contains('\\'))?, after.trim_ascii_start())
        }
        None => text.split_at(text.bytes().position(is_special)?),
    };
    if let Some(rest) = rest.strip_prefix('<') {
        let (email, rest) = address(rest)?;
        let person = Correspondent { name: one_line(name), email: email.to_owned() };
        return Some((person, rest.strip_prefix('>')?));
    }
    let (email, rest) = address(text)?;
    email.contains('@').then(|| (Correspondent { name: String::new(), email: email.to_owned() }, rest))
}

/// Parses an address without white space and without characters of special meaning.
fn address(text: &str) -> Option<(&str, &str)> {
    let ends = |byte: u8| byte != b'@' && (is_special(byte) || byte.is_ascii_whitespace());
    let end = text.bytes().position(ends).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// The `specials` of RFC 5322 section 3.2.3, except the dot.
fn is_special(byte: u8) -> bool {
    matches!(byte, b'(' | b')' | b'<' | b'>' | b'[' | b']' | b':' | b';' | b'@' | b'\\' | b',' | b'"')
}

/// Parses a value with parameters, each a token or quoted: `text/plain; charset=utf-8`.
pub(super) fn parameterized(text: &str) -> Option<Parameterized> {
    if !is_plain(text.as_bytes()) {
        return None;
    }
    let (value, mut rest) = text.split_at(text.bytes().position(|byte| !is_value(byte)).unwrap_or(text.len()));
    let mut parameters = Vec::new();
    while let Some(after) = rest.trim_ascii_start().strip_prefix(';') {
        let after = after.trim_ascii_start();
        if after.is_empty() {
            rest = after;
            break;
        }
        let (name, after) = after.split_once('=')?;
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_at(after.bytes().position(|byte| !is_value(byte)).unwrap_or(after.len())),
        };
        if !is_name(name) || !is_quotable(value.as_bytes()) {
            return None;
        }
        parameters.push((name.to_ascii_lowercase(), value.to_owned()));
        rest = after;
    }
    let is_whole = rest.trim_ascii_start().is_empty() && is_type(value);
    is_whole.then(|| Parameterized { value: value.to_ascii_lowercase(), parameters })
}

/// Returns whether [`part`] can convert a description directly, without parsing its original field.
pub(super) fn is_plain_part(described: &DescribedPart, limits: &Limits) -> bool {
    let fits = |value: &str, parameters: &[DescribedParameter]| {
        // The syntax around a parameter: `; `, the equals sign, two quotes.
        const AROUND: usize = 5;
        let bytes = |(name, value): &DescribedParameter| name.len() + value.len() + AROUND;
        let is_plain = |(name, value): &DescribedParameter| is_name(name) && is_quotable(value) && is_plain(value);
        is_word(value)
            && parameters.iter().all(is_plain)
            && value.len() + parameters.iter().map(bytes).sum::<usize>() <= limits.max_parameter_bytes / 2
    };
    let is_one_line = |text: &[u8]| !text.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
    is_word(&described.media_type)
        && fits(&described.subtype, &described.parameters)
        && described.disposition.as_ref().is_none_or(|(kind, parameters)| fits(kind, parameters))
        && described.content_id.as_deref().is_none_or(is_one_line)
        && described.encoding.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Converts a plain description into a part, without position and without children.
pub(super) fn part(described: DescribedPart) -> Part {
    let DescribedPart { mut media_type, subtype, parameters, disposition, content_id, encoding, .. } = described;
    media_type.push('/');
    media_type.push_str(&subtype);
    let content_type = lower(media_type, parameters);
    Part {
        header: 0..0,
        body: 0..0,
        media_type: content_type.value.clone(),
        content_type,
        disposition: disposition.map(|(kind, parameters)| lower(kind, parameters)).unwrap_or_default(),
        content_id: content_id.as_deref().and_then(fields::identifier),
        encoding: TransferEncoding::named(&encoding),
        has_parts: false,
        level: 0,
    }
}

fn lower(mut value: String, parameters: Vec<DescribedParameter>) -> Parameterized {
    value.make_ascii_lowercase();
    let parameter = |(mut name, value): DescribedParameter| {
        name.make_ascii_lowercase();
        (name, String::from_utf8(value).unwrap_or_default())
    };
    Parameterized { value, parameters: parameters.into_iter().map(parameter).collect() }
}

/// Parses the common form of a date (RFC 5322 section 3.3): `Fri, 20 Nov 2026 12:15:30 +0200`, with or
/// without the day of the week.
pub(super) fn date_time(text: &[u8]) -> Option<DateTime> {
    let text = match text {
        [a, b, c, b',', b' ', rest @ ..] if [a, b, c].iter().all(|byte| byte.is_ascii_alphabetic()) => rest,
        _ => text,
    };
    let (day, rest) = match text {
        [ones, b' ', rest @ ..] => (two_digits(b'0', *ones)?, rest),
        [tens, ones, b' ', rest @ ..] => (two_digits(*tens, *ones)?, rest),
        _ => return None,
    };
    // The text after the day: `Nov 2026 12:15:30 +0200`.
    let rest: &[u8; 23] = rest.try_into().ok()?;
    let separators = [(3, b' '), (8, b' '), (11, b':'), (14, b':'), (17, b' ')];
    let number = |at: usize| two_digits(rest[at], rest[at + 1]);
    let sign = rest[18];
    if !matches!(sign, b'+' | b'-') || separators.iter().any(|&(at, byte)| rest[at] != byte) {
        return None;
    }
    let month = MONTHS.iter().position(|name| name[..] == rest[..3])?;
    let date = DateTime {
        year: u16::from(number(4)?) * 100 + u16::from(number(6)?),
        month: u8::try_from(month + 1).ok()?,
        day,
        hour: number(9)?,
        minute: number(12)?,
        second: number(15)?,
        tz_before_gmt: sign == b'-',
        tz_hour: number(19)?,
        tz_minute: number(21)?,
    };
    date.is_valid().then_some(date)
}

const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

fn two_digits(tens: u8, ones: u8) -> Option<u8> {
    let [tens, ones] = [tens, ones].map(|digit| digit.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| tens * 10 + ones)
}

/// Returns whether a text is printable ASCII without control characters, tabs included. Without an early
/// exit, several bytes are checked per step.
pub(super) fn is_printable(text: &[u8]) -> bool {
    text.iter().fold(true, |so_far, byte| so_far & matches!(byte, b' '..=b'~'))
}

/// Returns whether a text is printable ASCII, blanks included, and contains no start of an encoded word.
fn is_plain(text: &[u8]) -> bool {
    // No early exit here either.
    text.iter().fold(true, |so_far, byte| so_far & matches!(byte, b' '..=b'~' | b'\t'))
        && !encoded_word::may_begin_in(text)
}

/// Returns whether a text is a token (RFC 2045 section 5.1) without special meaning in any field of mail and
/// HTTP.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| is_value(byte) && byte != b'/')
}

/// Returns whether a text is `type/subtype`, or one token.
fn is_type(text: &str) -> bool {
    text.split_once('/').map_or_else(|| is_word(text), |(kind, subtype)| is_word(kind) && is_word(subtype))
}

/// Returns whether a text is a parameter name without the asterisk of RFC 2231.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Returns whether a byte is valid in tokens and has no special meaning in any parser.
fn is_value(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+' | b'/')
}

/// Returns whether a text needs no escapes between quotes.
fn is_quotable(text: &[u8]) -> bool {
    !text.is_empty() && !text.iter().any(|byte| matches!(byte, b'"' | b'\\' | b'\t'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: usize = 1 << 16;

    fn people(text: &str) -> Option<Vec<(String, String)>> {
        correspondents(text).map(|people| people.into_iter().map(|p| (p.name, p.email)).collect())
    }

    #[test]
    fn other_forms_are_left_to_the_parser() {
        for text in [
            "",
            "Fri, ",
            "6 Nov 2026",
            "6 Nov 2026 24:00:00 +0000",
            "6 Nov 2026 12:15 +0000",
            "6 Nov 2026 12:15:30 UTC",
        ] {
            assert_eq!(date_time(text.as_bytes()), None, "{text}");
        }
        for text in [
            "",
            ",",
            "a",
            "a@x,",
            "Team: a@x;",
            "a@x (A)",
            "=?utf-8?q?A?= <a@x>",
            "J\u{fc}rgen <a@x>",
            "A <>",
            "A <a@x> B",
            "\"A \\\" B\" <a@x>",
            "\"A",
            "A <a@x",
            "<@y:a@x>",
            "\"a b\"@x",
            "A \"B\" <a@x>",
            "a b@x",
        ] {
            assert_eq!(people(text), None, "{text}");
        }
        for text in [
            "",
            "text/",
            "/plain",
            "a/b/c",
            "a/b;c",
            "a/b; c=",
            "a/b; c=\"\"",
            "a/b; c*=x",
            "a/b; c=d e",
            "a/b (c)",
            "a/b; c=\"d",
            "a/b; c =d",
            "a/b; c=\"\\d\"",
            "a/b; c=\"=?utf-8?q?d?=\"",
        ] {
            assert_eq!(parameterized(text), None, "{text}");
        }
    }

    #[test]
    fn the_usual_forms_are_read() {
        for text in ["Fri, 6 Nov 2026 12:15:30 +0200", "06 Nov 2026 12:15:30 +0200"] {
            let read = date_time(text.as_bytes()).map(|date| date.to_timestamp());
            assert_eq!(read, Some(1_793_960_130), "{text}");
        }
        let own = |people: &[(&str, &str)]| {
            Some(people.iter().map(|(name, email)| ((*name).to_owned(), (*email).to_owned())).collect::<Vec<_>>())
        };
        let expected =
            own(&[("Ann  B.".replace("  ", " ").as_str(), "a@x"), ("Lee, Ann", "l@x"), ("", "b@x"), ("", "c@x")]);
        assert_eq!(people("Ann  B. <a@x>,\t\"Lee, Ann\" <l@x>, b@x , <c@x>"), expected);
        let read = parameterized("TEXT/Plain; Charset=UTF-8; name=\"a; b\";").unwrap();
        assert_eq!((read.value.as_str(), read.parameter("charset")), ("text/plain", Some("UTF-8")));
        assert_eq!(read.parameter("name"), Some("a; b"));
    }

    proptest! {
        #[test]
        fn people_are_those_that_the_parser_finds(
            text in "((\"[ -~]{0,8}\"|[ -~]{0,8}|[A-Za-z. ]{0,8}) ?(<[!-~]{0,8}>|<[a-z.]{1,4}@[a-z.]{1,4}>|[a-z]@[a-z])[, \t]{0,2}){0,3}"
        ) {
            if let Some(people) = correspondents(text.trim()) {
                prop_assert_eq!(people, fields::parsed_correspondents(text.as_bytes(), MAX));
            }
        }

        #[test]
        fn a_date_is_that_which_the_parser_finds(
            text in "([A-Z][a-z]{2},? )?[0-9 ]?[0-9] (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Foo|jan) (19|20|[0-9]{2})[0-9]{2} \
                [0-2][0-9]:[0-6][0-9]:[0-6][0-9] [+-][0-2][0-9][0-6][0-9] ?"
        ) {
            if let Some(read) = date_time(text.as_bytes()) {
                prop_assert_eq!(Some(read), fields::parsed_date_time(&text, MAX));
            }
        }

        #[test]
        fn parameters_are_those_that_the_parser_finds(
            text in "[a-zA-Z./]{0,8}( ?;[ \t]?([a-zA-Z*0-9-]{0,5}=([!-~]{0,5}|\"[ -~]{0,6}\"|[a-z0-9.]{1,5}))?){0,3} ?"
        ) {
            if let Some(read) = parameterized(text.trim()) {
                prop_assert_eq!(Some(read), Parameterized::parsed(text.as_bytes(), MAX));
            }
        }

        #[test]
        fn any_value_is_read_or_left(text in any::<String>(), bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            let _ = (correspondents(&text), parameterized(&text), is_plain(&bytes), date_time(&bytes));
        }
    }
}
