//! Header fields: their position in a message and the meaning of their values. Only this module uses
//! mail-parser's field parsers; [`super::structure`] parses the structure of a message.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use mail_parser::parsers::MessageStream;
use mail_parser::{DateTime, HeaderValue};
use mailapi_model::Timestamp;

use super::addresses::{self, AddressEntry};
use super::encoded_word::{self, Hidden};
use super::{charset, date, parameters, plain, raw_octets};
use crate::Correspondent;

/// One header field (RFC 5322 section 2.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field<'a> {
    /// The name as written.
    pub(super) name: &'a str,
    /// The raw value, including folding; octets outside UTF-8 are converted ([`raw_octets`]).
    pub(super) value: Cow<'a, [u8]>,
}

/// Returns the range of one line with its line end.
pub(super) fn line(raw: &[u8], start: usize) -> Range<usize> {
    let rest = &raw[start..];
    start..memchr::memchr(b'\n', rest).map_or(raw.len(), |at| start + at + 1)
}

/// Removes the line end.
pub(super) fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns whether the line is the empty line that ends a header block. A line of white space continues the
/// previous field instead (RFC 5322 section 4.2).
pub(super) fn ends_header(line: &[u8]) -> bool {
    without_line_end(line).is_empty()
}

/// Returns the lines of a message's header block with their line ends, without the final empty line.
pub fn header_lines(message: &[u8]) -> impl Iterator<Item = &[u8]> {
    message.split_inclusive(|byte| *byte == b'\n').take_while(|line| !ends_header(line))
}

/// Returns the name before the colon, if the line starts a field.
pub(super) fn field_name(line: &[u8]) -> Option<&str> {
    name_and_colon(line).map(|(name, _)| name)
}

/// Like [`field_name`], with the position of the colon.
fn name_and_colon(line: &[u8]) -> Option<(&str, usize)> {
    let colon = memchr::memchr(b':', line)?;
    // White space before the colon is obsolete but occurs (RFC 5322 section 4.5).
    let name = line[..colon].trim_ascii_end();
    let fits = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
    std::str::from_utf8(name).ok().filter(|_| fits).map(|name| (name, colon))
}

/// Removes a byte order mark.
pub(super) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text)
}

/// Removes what editors and exports put before the first field: a byte order mark, and blanks.
pub(super) fn without_lead(block: &[u8]) -> &[u8] {
    let block = without_mark(block);
    let is_lead = |byte: &u8| matches!(byte, b' ' | b'\t');
    &block[block.iter().position(|byte| !is_lead(byte)).unwrap_or(block.len())..]
}

/// Returns at most `max` fields of a header block, in order. Lines outside of fields are skipped.
pub(super) fn fields(block: &[u8], max: usize) -> Vec<Field<'_>> {
    let block = without_lead(block);
    let mut fields: Vec<Field<'_>> = Vec::new();
    let (mut at, mut start, mut is_open) = (0, 0, false);
    while at < block.len() {
        let span = line(block, at);
        let text = &block[span.clone()];
        at = span.end;
        // A line that starts with white space continues the field.
        if is_open && matches!(text.first(), Some(b' ' | b'\t')) {
            if let Some(field) = fields.last_mut() {
                field.value = Cow::Borrowed(without_line_end(&block[start..span.end]));
            }
            continue;
        }
        is_open = false;
        // Checked after continuation lines, so that the last field is complete.
        if fields.len() >= max {
            break;
        }
        if let Some((name, colon)) = name_and_colon(text) {
            start = span.start + colon + 1;
            fields.push(Field { name, value: Cow::Borrowed(without_line_end(&block[start..span.end])) });
            is_open = true;
        }
    }
    // Almost all header blocks are ASCII.
    if !block.is_ascii() && std::str::from_utf8(block).is_err() {
        raw_octets::convert(&mut fields);
    }
    fields
}

/// Returns the value on one line, still encoded.
pub(super) fn unfolded(value: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(value) {
        Ok(text) if memchr::memchr2(b'\r', b'\n', value).is_none() => Cow::Borrowed(text.trim()),
        _ => Cow::Owned(charset::guess(value).replace(['\r', '\n'], "").trim().to_owned()),
    }
}

/// Removes control characters and collapses white space, for lists, logs and files.
pub(super) fn one_line(text: &str) -> String {
    beginning_on_one_line(text, text.len())
}

/// Returns the beginning of [`one_line`], of `enough` bytes or more.
pub(super) fn beginning_on_one_line(text: &str, enough: usize) -> String {
    let mut line = String::with_capacity(text.len().min(enough));
    for written in lines(text) {
        if line.len() >= enough {
            break;
        }
        // Checking a whole line is many times faster than looking at each character.
        if is_one_line(written) {
            append(&mut line, written);
            continue;
        }
        for word in written.split(|c: char| c.is_whitespace() || c.is_control()) {
            append(&mut line, word);
        }
    }
    line
}

/// Returns the lines of a text; every CR and every LF ends one.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let ends = memchr::memchr2_iter(b'\r', b'\n', text.as_bytes()).chain(std::iter::once(text.len()));
    ends.scan(0, |start, end| Some(&text[std::mem::replace(start, end + 1)..end]))
}

/// Appends words after a space, unless there are none.
fn append(line: &mut String, words: &str) {
    if !line.is_empty() && !words.is_empty() {
        line.push(' ');
    }
    line.push_str(words);
}

/// Returns whether an ASCII text needs no change, as almost all do.
fn is_one_line(text: &str) -> bool {
    let bytes = text.as_bytes();
    plain::is_printable(bytes) && !plain::has_two_spaces(bytes) && !text.starts_with(' ') && !text.ends_with(' ')
}

/// Decodes the encoded words (RFC 2047) of a value. Spaces inside words are kept; spaces around the value are
/// removed.
pub(super) fn decoded(value: &[u8]) -> Cow<'_, str> {
    let text = unfolded(value);
    if encoded_word::may_begin_in(text.as_bytes()) {
        return Cow::Owned(encoded_word::decoded(&text));
    }
    text
}

/// Decodes a text such as a Subject onto one line. Spaces stay as written; control characters and line ends
/// become one space.
pub(super) fn text_line(value: &[u8]) -> String {
    let decoded = decoded(value);
    if plain::is_printable(decoded.as_bytes()) {
        return decoded.into_owned();
    }
    let ends_line = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if !decoded.contains(ends_line) {
        return decoded.into_owned();
    }
    let mut line = String::with_capacity(decoded.len());
    for piece in decoded.split(ends_line) {
        append(&mut line, piece.trim());
    }
    line
}

/// Returns the part of a value within the limit, prepared for a field parser.
fn terminated(value: &[u8], max_bytes: usize) -> Hidden {
    let text = unfolded(value);
    let mut hidden = Hidden::new(&text[..text.floor_char_boundary(max_bytes)]);
    hidden.value.push('\n');
    hidden
}

/// Returns the correspondents of an address field (RFC 5322 section 3.4), including group members.
pub(super) fn correspondents(value: &[u8], max_bytes: usize) -> Vec<Correspondent> {
    let text = unfolded(value);
    addresses::correspondents(&Hidden::new(&text[..text.floor_char_boundary(max_bytes)]))
}

/// Returns the entries of an address field as IMAP reports them.
pub(super) fn address_entries(value: &[u8], max_bytes: usize) -> Vec<AddressEntry> {
    let text = unfolded(value);
    addresses::entries(&text[..text.floor_char_boundary(max_bytes)])
}

fn date_time(value: &[u8], max_bytes: usize) -> Option<DateTime> {
    let text = unfolded(value);
    let start = &text[..text.floor_char_boundary(max_bytes)];
    let is_plain = start.is_ascii() && !encoded_word::may_begin_in(start.as_bytes());
    let start = if is_plain { Cow::Borrowed(start) } else { Cow::Owned(Hidden::new(start).value) };
    date::read(&start)
}

/// Returns the time of a date field (RFC 5322 section 3.3); `None` if it is invalid.
pub(super) fn moment(value: &[u8], max_bytes: usize) -> Option<Timestamp> {
    date_time(value, max_bytes).map(|date| Timestamp::from_seconds(date.to_timestamp()))
}

/// Returns year, month and day of a date field as written; `None` if it is invalid.
pub(super) fn day(value: &[u8], max_bytes: usize) -> Option<(u16, u8, u8)> {
    date_time(value, max_bytes).map(|date| (date.year, date.month, date.day))
}

/// Returns a Message-ID or Content-ID without angle brackets; `None` if it is empty.
pub(super) fn identifier(value: &[u8]) -> Option<String> {
    let text = unfolded(value);
    let text = if is_one_line(&text) { text } else { Cow::Owned(one_line(&text)) };
    let inner = text.split_once('<').map_or(&*text, |(_, rest)| rest.split('>').next().unwrap_or_default());
    Some(inner.trim()).filter(|id| !id.is_empty()).map(ToOwned::to_owned)
}

/// Adds the identifiers of a Message-ID field (RFC 5322 section 3.6.4) in the form in which they can be compared: without
/// brackets, comments and white space, and with the domain in lower case. A value without brackets is one identifier.
/// Ends after `most`.
pub(super) fn add_identifiers(value: &[u8], most: usize, found: &mut BTreeSet<String>) {
    let unfolded = unfolded(value);
    let text = date::without_comments(&unfolded);
    let bracketed = text.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or_default());
    let mut has_any = false;
    for id in bracketed.filter_map(comparable_identifier) {
        has_any = true;
        if found.len() >= most {
            return;
        }
        found.insert(id);
    }
    if !has_any && found.len() < most {
        found.extend(comparable_identifier(&text));
    }
}

fn comparable_identifier(text: &str) -> Option<String> {
    let mut id: String = text.chars().filter(|c| !c.is_whitespace() && !matches!(c, '<' | '>')).collect();
    // The local part may depend on its case (RFC 5321 section 2.4).
    let domain = id.rfind('@').unwrap_or(id.len());
    id[domain..].make_ascii_lowercase();
    Some(id).filter(|id| !id.is_empty())
}

/// A value with parameters (RFC 2045 section 5.1, RFC 2183), decoded by RFC 2231 and RFC 2047.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Parameterized {
    /// Such as `text/plain` or `attachment`, in lower case.
    pub(super) value: String,
    /// Names and values.
    pub(super) parameters: Vec<(String, String)>,
}

impl Parameterized {
    pub(super) fn read(value: &[u8], max_bytes: usize) -> Option<Self> {
        let mut text = terminated(value, max_bytes);
        if let Cow::Owned(separated) = parameters::separated(&text.value) {
            text.value = separated;
        }
        let HeaderValue::ContentType(read) = MessageStream::new(text.value.as_bytes()).parse_content_type() else {
            return None;
        };
        let value =
            read.c_subtype.as_ref().map_or_else(|| read.c_type.to_string(), |sub| format!("{}/{sub}", read.c_type));
        let attributes = read.attributes.unwrap_or_default().into_iter();
        let mut parameters: Vec<_> = attributes.map(|p| (p.name.into_owned(), text.reveal(&p.value))).collect();
        if text.value.contains('*') {
            prefer_extended(&mut parameters, &text);
        }
        Some(Self { value: text.reveal(value.trim()).to_ascii_lowercase(), parameters })
    }

    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Encoded or continued parameters take precedence over plain ones for old readers, in any order, as in HTTP
/// (RFC 6266 section 4.3).
fn prefer_extended(parameters: &mut Vec<(String, String)>, text: &Hidden) {
    let (_, mut written) = parameters::written(&text.value);
    for (_, value) in &mut written {
        *value = text.reveal(value);
    }
    let extended = parameters::extended(written);
    parameters.retain(|(name, _)| !extended.contains_key(name));
    parameters.extend(extended);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: usize = 1 << 16;

    #[test]
    fn lines_that_are_no_fields_are_passed_over() {
        let block =
            b"no field\r\n folded nothing\r\nA: 1\r\n\tand 2\r\n: nameless\r\nB : 3\r\n\xff: 8-bit name\r\nC:\r\n\r\n";
        let found: Vec<_> = fields(block, MAX).into_iter().map(|field| (field.name, field.value)).collect();
        assert_eq!(found, [("A", Cow::from(&b" 1\r\n\tand 2"[..])), ("B", Cow::from(b" 3")), ("C", Cow::from(b""))]);
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "yesterday",
            "Fri, 99 Nov 2026 10:00:00 +0000",
            "32 Foo 1",
            "29 Feb 2026 10:00:00 +0000",
            "Tue, 31 Nov 2026 10:00 GMT",
            "29 Feb 2100 10:00:00 Z",
            "20 Nov 2026 10:00:61 +0000",
            "20 Nov 2026 10:60 GMT",
            "20 Nov 2026 GMT",
        ] {
            assert_eq!(moment(text.as_bytes(), MAX), None, "{text}");
        }
    }

    #[test]
    fn dates_are_read_in_their_old_forms_too() {
        for (text, expected) in [
            (" Fri, 20 Nov 2026 12:15:30 +0200", "2026-11-20T10:15:30.000Z"),
            ("20 Nov 2026 10:15 +0000", "2026-11-20T10:15:00.000Z"),
            ("Tue, 03 Mar 2026 04:05 GMT", "2026-03-03T04:05:00.000Z"),
            ("3 Mar 26 04:05 UT", "2026-03-03T04:05:00.000Z"),
            ("Tue, 03 Mar 2026 04:05 pst (winter: there)", "2026-03-03T12:05:00.000Z"),
            ("Tue, 03 Mar 2026 04:05\r\n EST (winter)", "2026-03-03T09:05:00.000Z"),
            ("Tue, 3 Mar 2026 04:05:06 pdt", "2026-03-03T11:05:06.000Z"),
            ("Tue, 3 Mar 2026 04:05:06Z", "2026-03-03T04:05:06.000Z"),
            ("Tue, 3 Mar 2026 04:05:06 GMT+0200 (CEST)", "2026-03-03T02:05:06.000Z"),
            ("Sat, 31 Dec 2016 23:59:60 +0000", "2016-12-31T23:59:59.000Z"),
            ("Sat, 31 Dec 2016 18:59:60 EST", "2016-12-31T23:59:59.000Z"),
            ("29 Feb 2028 00:00 +0000", "2028-02-29T00:00:00.000Z"),
        ] {
            let read = moment(text.as_bytes(), MAX).map(|date| date.to_string());
            assert_eq!(read.as_deref(), Some(expected), "{text}");
        }
        assert_eq!(day(b"Tue, 03 Mar 2026 23:05 PST", MAX), Some((2026, 3, 3)));
    }

    #[test]
    fn an_identifier_is_compared_in_one_form() {
        for text in [
            "<1.A@x.test>",
            " <1.A@X.Test> (a (nested) \\) <2@x.test> comment)",
            "(<2@x.test>)\r\n\t<1.A@x.test>",
            "<1.A (a)@x.test> remark",
            "< 1.A@x.\r\n test>",
            "1.A@X.TEST",
        ] {
            let mut found = BTreeSet::new();
            add_identifiers(text.as_bytes(), 9, &mut found);
            assert_eq!(Vec::from_iter(found), ["1.A@x.test"], "{text}");
        }
        let mut found = BTreeSet::new();
        add_identifiers(b"<a@x> <a@x> <b@x> <a@y> <> <a@z>", 3, &mut found);
        assert_eq!(Vec::from_iter(found), ["a@x", "a@y", "b@x"]);
        let mut found = BTreeSet::new();
        add_identifiers(b" (none) <>", 3, &mut found);
        assert!(found.is_empty());
    }

    #[test]
    fn names_are_decoded_and_groups_opened() {
        let people = correspondents(
            b" =?utf-8?q?J=C3=BCrgen?= <j@x.org>,\r\n \"Lee, Ann\" <ann@x.org>, Team: bob@x.org;, broken",
            MAX,
        );
        let shown: Vec<_> = people.iter().map(|p| (p.name.as_str(), p.email.as_str())).collect();
        assert_eq!(shown, [("Jürgen", "j@x.org"), ("Lee, Ann", "ann@x.org"), ("", "bob@x.org"), ("broken", "")]);
    }

    #[test]
    fn the_usual_forms_of_people_are_read() {
        let people = correspondents(b"Ann  B. <a@x>,\t\"Lee, \\\"Ann\\\"\" <l@x>, b@x , <c@x>", MAX);
        let shown: Vec<_> = people.iter().map(|p| (p.name.as_str(), p.email.as_str())).collect();
        assert_eq!(shown, [("Ann B.", "a@x"), ("Lee, \"Ann\"", "l@x"), ("", "b@x"), ("", "c@x")]);
    }

    #[test]
    fn raw_bytes_in_a_name_are_no_loss() {
        assert_eq!(correspondents(b"J\xfcrgen <j@x.org>", MAX)[0].name, "Jürgen");
        assert_eq!(decoded(b" na\xc3\xafve =?iso-8859-1?q?caf=E9?="), "naïve café");
    }

    #[test]
    fn a_subject_keeps_its_spaces_on_one_line() {
        for (written, shown) in [
            (" a  b   c ", "a  b   c"),
            ("a\r\n  b", "a  b"),
            ("a\r\n\tb\t \tc", "a b c"),
            ("=?utf-8?q?__a_?=  =?utf-8?q?b=20?= ", "  a b "),
            ("=?utf-8?q?a__b=0D=0A_c=E2=80=A8d?=", "a  b c d"),
            (" \t ", ""),
        ] {
            assert_eq!(text_line(written.as_bytes()), shown, "{written:?}");
        }
    }

    #[test]
    fn parameters_are_decoded() {
        let read =
            Parameterized::read(b" Attachment;\r\n filename*0*=utf-8''na%C3%AFve;\r\n filename*1=\" plan.pdf\"", MAX)
                .unwrap();
        assert_eq!((read.value.as_str(), read.parameter("filename")), ("attachment", Some("naïve plan.pdf")));
        let read = Parameterized::read(b"TEXT/Plain; CHARSET=\"utf-8\"", MAX).unwrap();
        assert_eq!((read.value.as_str(), read.parameter("charset")), ("text/plain", Some("utf-8")));
        let read = Parameterized::read(b"text/Plain;Charset=UTF-8 ; name=\"a; b\";", MAX).unwrap();
        assert_eq!((read.parameter("charset"), read.parameter("name")), (Some("UTF-8"), Some("a; b")));
    }

    #[test]
    fn an_encoded_name_counts_more_than_the_one_for_old_readers() {
        for field in [
            "attachment; filename=\"fallback.txt\"; filename*=UTF-8''st%C3%A4r.txt",
            "attachment; filename*=UTF-8''st%C3%A4r.txt; FILENAME=\"fallback.txt\"",
            "attachment; filename*1*=%A4r.txt;\r\n filename=fallback.txt; filename*0*=utf-8''st%C3",
        ] {
            let read = Parameterized::read(field.as_bytes(), MAX).unwrap();
            assert_eq!(read.parameters, [("filename".to_owned(), "stär.txt".to_owned())], "{field}");
        }
        let read = Parameterized::read(b"attachment; filename=kept.txt; filename*=; a*=utf-8''b", MAX).unwrap();
        assert_eq!((read.parameter("filename"), read.parameter("a")), (Some("kept.txt"), Some("b")));
    }

    proptest! {
        #[test]
        fn no_field_makes_a_parser_panic(value in prop::collection::vec(any::<u8>(), 0..200), text in prop_oneof![
            "[ -~\\r\\n\\t]{0,120}",
            "([<>@,;:\"\\\\() .a-c*='%é]|\r\n[ \t]|=\\?(utf-8|x)\\?[qbQ]\\?(=[0-9A-F]{2}|[A-Za-z0-9+/]{4}|_|[a-z]){0,4}\\?=|filename\\*[0-9]{0,2}\\*?=|utf-8''|%[0-9A-F]{2}){0,40}",
            "(Mon, ?)?[0-9]{1,2} (Jan|feb|Xyz|[0-9]{1,2}) [0-9]{0,6} [0-9:]{0,9} ?([+-][0-9]{2,6}|GMT|est|Z|[A-Z]{0,4}) ?[+-]?\\PC{0,4}",
        ]) {
            for value in [&value[..], text.as_bytes()] {
                let _ = (fields(value, MAX), decoded(value), correspondents(value, MAX), moment(value, MAX));
                let _ = (identifier(value), Parameterized::read(value, 50));
                let mut ids = BTreeSet::new();
                add_identifiers(value, 2, &mut ids);
                prop_assert!(ids.len() <= 2 && ids.iter().all(|id| !id.is_empty() && !id.contains(char::is_whitespace)));
                prop_assert!(!one_line(&charset::guess(value)).chars().any(char::is_control));
                prop_assert!(!text_line(value).chars().any(char::is_control));
            }
        }

        #[test]
        fn one_line_has_all_words_with_one_space_between(
            pieces in prop::collection::vec(prop::sample::select(vec!["a", "bc", " ", "\r\n", "\n", "\t", "\0", "ü", "\u{a0}"]), 0..24),
        ) {
            let text = pieces.concat();
            let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
            prop_assert_eq!(one_line(&text), words.collect::<Vec<_>>().join(" "));
        }
    }
}
