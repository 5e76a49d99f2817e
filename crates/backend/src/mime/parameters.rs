//! Parameters of a field as written, and decoding of RFC 2231 extensions.
//!
//! mail-parser is not used because it decodes each section by itself. It loses characters split across
//! sections, and the charset, which only the first section names.

use std::borrow::Cow;
use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use super::charset;

/// Returns the text before the first semicolon, and the parameters after it. Removes quotes and comments (RFC
/// 5322 sections 3.2.2 and 3.2.4), in which semicolons have no meaning.
pub(super) fn written(text: &str) -> (String, Vec<(String, String)>) {
    let (mut value, mut current) = (None, Segment::default());
    let mut parameters = Vec::new();
    let (mut is_quoted, mut comments, mut is_escaped) = (false, 0_usize, false);
    for c in text.chars() {
        let is_special = !std::mem::take(&mut is_escaped);
        match c {
            '\\' if is_special && (is_quoted || comments > 0) => is_escaped = true,
            '"' if is_special && comments == 0 => is_quoted = !is_quoted,
            '(' if is_special && !is_quoted && (comments > 0 || !current.is_within_encoded()) => comments += 1,
            ')' if is_special && comments > 0 => comments -= 1,
            _ if comments > 0 => {}
            ';' if is_special && !is_quoted => end(std::mem::take(&mut current), &mut value, &mut parameters),
            '=' if !is_quoted && value.is_some() && current.name.is_none() => current.end_name(),
            c => current.push(c, is_quoted),
        }
    }
    end(current, &mut value, &mut parameters);
    (value.unwrap_or_default(), parameters)
}

/// Adds the semicolon before the first parameter, which some programs forget (`text/html charset=utf-8`).
pub(super) fn separated(text: &str) -> Cow<'_, str> {
    let trimmed = text.trim_start();
    let end = trimmed.find(|c: char| c.is_whitespace() || ";(\"=".contains(c)).unwrap_or(trimmed.len());
    let (value, rest) = trimmed.split_at(end);
    let parameter = rest.trim_start();
    let name = parameter.find(|c: char| !c.is_ascii_alphanumeric() && !"-_*".contains(c)).unwrap_or(parameter.len());
    let is_forgotten =
        !value.is_empty() && name > 0 && parameter.len() < rest.len() && parameter[name..].starts_with('=');
    if is_forgotten { Cow::Owned(format!("{value};{rest}")) } else { Cow::Borrowed(text) }
}

fn end(segment: Segment, value: &mut Option<String>, parameters: &mut Vec<(String, String)>) {
    let (name, text) = segment.end();
    match value {
        None => *value = Some(text),
        Some(_) => parameters.extend(name.filter(|name| !name.is_empty()).map(|name| (name, text))),
    }
}

/// The text between two semicolons.
#[derive(Default)]
struct Segment {
    /// The name, once the equals sign was read.
    name: Option<String>,
    text: String,
    /// Length of the text without trailing blanks.
    length: usize,
}

impl Segment {
    /// Adds a character. Blanks around a text are ignored unless quoted.
    fn push(&mut self, c: char, is_quoted: bool) {
        let is_blank = c.is_whitespace() && !is_quoted;
        if is_blank && self.length == 0 {
            return;
        }
        self.text.push(c);
        if !is_blank {
            self.length = self.text.len();
        }
    }

    /// Returns whether the last character belongs to an encoded value. Many programs leave parentheses in
    /// such values unencoded, so these must not start a comment.
    fn is_within_encoded(&self) -> bool {
        let is_encoded = self.name.as_ref().is_some_and(|name| name.ends_with('*'));
        is_encoded && self.length > 0 && self.length == self.text.len()
    }

    fn end_name(&mut self) {
        let (_, name) = std::mem::take(self).end();
        self.name = Some(name);
    }

    fn end(mut self) -> (Option<String>, String) {
        self.text.truncate(self.length);
        (self.name, self.text)
    }
}

/// Returns the decoded parameters that are encoded or continued (RFC 2231 sections 3 and 4), with names in
/// lower case. A whole value takes precedence over its sections; empty values are omitted.
pub(super) fn extended(written: Vec<(String, String)>) -> BTreeMap<String, String> {
    let mut sections: BTreeMap<String, Sections> = BTreeMap::new();
    for (name, value) in written {
        if let Some(place) = Place::of(&name) {
            let section = Section { value, is_encoded: place.is_encoded };
            // Of repeated sections, the first counts.
            sections.entry(place.name).or_default().entry(place.number).or_insert(section);
        }
    }
    let values = sections.into_iter().map(|(name, sections)| (name, decoded(&sections)));
    values.filter(|(_, value)| !value.is_empty()).collect()
}

/// Sections by number; the key `None` is the whole value.
type Sections = BTreeMap<Option<u32>, Section>;

struct Section {
    value: String,
    is_encoded: bool,
}

/// The parts of a name such as `filename*`, `filename*0` or `filename*0*`.
pub(super) struct Place {
    /// In lower case.
    pub(super) name: String,
    pub(super) number: Option<u32>,
    is_encoded: bool,
}

impl Place {
    pub(super) fn of(written: &str) -> Option<Self> {
        let (name, marks) = written.split_once('*')?;
        let name = name.trim_end().to_ascii_lowercase();
        let (digits, is_encoded) = marks.strip_suffix('*').map_or((marks, false), |digits| (digits, true));
        if digits.is_empty() {
            // One asterisk means an encoded value; two are invalid.
            return (!is_encoded).then_some(Self { name, number: None, is_encoded: true });
        }
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number: u16 = digits.parse().ok().filter(|_| is_number)?;
        Some(Self { name, number: Some(number.into()), is_encoded })
    }
}

/// Joins and decodes the sections up to the first gap. Some programs count from 1.
fn decoded(sections: &Sections) -> String {
    let first = sections.keys().next().copied().flatten();
    let mut text = Decoding::default();
    for (index, (number, section)) in (0..).zip(sections) {
        if *number != first.map(|first| first + index) {
            break;
        }
        text.push(section, index == 0);
    }
    text.end()
}

/// Collects the bytes of the sections. They are decoded together, because a character may be split across
/// sections.
#[derive(Default)]
struct Decoding<'a> {
    charset: Option<&'a str>,
    bytes: Vec<u8>,
    text: String,
}

impl<'a> Decoding<'a> {
    fn push(&mut self, section: &'a Section, is_first: bool) {
        let mut value = section.value.as_str();
        if is_first && section.is_encoded {
            (self.charset, value) = charset_and_value(value);
        }
        let bytes = if section.is_encoded { percent_decode_str(value).collect() } else { value.as_bytes().to_vec() };
        if value.is_ascii() {
            self.bytes.extend(bytes);
        } else {
            // Unencoded non-ASCII characters were already decoded with the field; the charset does not apply
            // to them.
            self.decode();
            self.text.push_str(&charset::guess(&bytes));
        }
    }

    fn decode(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.text.push_str(&charset::decode(self.charset, &bytes));
    }

    fn end(mut self) -> String {
        self.decode();
        self.text
    }
}

/// Returns the number of apostrophes. Two of them enclose the language, behind the charset.
pub(super) fn apostrophes_of(section: &str) -> usize {
    section.bytes().filter(|byte| *byte == b'\'').count()
}

/// Splits the first encoded section (RFC 2231 section 4) into charset and value. The value may contain
/// further apostrophes; with fewer than two, everything is value.
fn charset_and_value(section: &str) -> (Option<&str>, &str) {
    let mut pieces = section.splitn(3, '\'');
    match (pieces.next(), pieces.next(), pieces.next()) {
        (Some(charset), Some(_language), Some(value)) => (Some(charset), value),
        _ => (None, section),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(field: &str) -> Option<String> {
        extended(written(&format!("attachment; {field}")).1).remove("filename")
    }

    #[test]
    fn what_is_neither_encoded_nor_cut_is_left_to_others() {
        for field in [
            "",
            "filename",
            "filename=a",
            "filename**=a",
            "filename*x=a",
            "filename*0x*=a",
            "filename*+0=a",
            "filename*-1*=a",
            "filename*65536=a",
            "filename*=",
            "filename*=utf-8''",
            "x=\"filename*=a\"",
            "(filename*=a)",
        ] {
            assert_eq!(name(field), None, "{field}");
        }
    }

    #[test]
    fn broken_encodings_lose_as_little_as_can_be() {
        for (field, expected) in [
            ("filename*=plain%20name.txt", "plain name.txt"),
            ("filename*=it's.txt", "it's.txt"),
            ("filename*=utf-8''100%.txt", "100%.txt"),
            ("filename*=utf-8''%4", "%4"),
            ("filename*=''st%E4r.txt", "stär.txt"),
            ("filename*=no-such-charset''st%C3%A4r.txt", "stär.txt"),
            ("filename*=utf-8''stär%20(1).txt", "stär (1).txt"),
            ("filename*1*=one; filename*2=two", "onetwo"),
            ("filename*0=a; filename*2=c; filename*3=d", "a"),
            ("filename*0=a; filename*0=b; filename*1=c", "ac"),
            ("filename*65535=end", "end"),
        ] {
            assert_eq!(name(field).as_deref(), Some(expected), "{field}");
        }
    }

    #[test]
    fn a_character_and_a_charset_reach_over_sections() {
        for (field, expected) in [
            ("filename*0*=UTF-8''%E6%97; filename*1*=%A5%E6%9C%AC.txt", "日本.txt"),
            ("filename*0*=iso-8859-1''Gr%FC; filename*1*=%DFe.txt", "Grüße.txt"),
            ("FileName*1*=%DFe; filename*0*=iso-8859-1'de'Gr%FC; FILENAME*2=\".txt\"", "Grüße.txt"),
            ("filename*0*=shift_jis''%83; filename*1=\"\\\\.txt\"", "ソ.txt"),
            ("filename*0=\" one \"; filename*1 = \"=two; \" ; filename*2=three", " one =two; three"),
            ("filename*0=\"100%\"; filename*1*=%41", "100%A"),
            ("filename*0=\"utf-8''%41\"", "utf-8''%41"),
        ] {
            assert_eq!(name(field).as_deref(), Some(expected), "{field}");
        }
    }

    #[test]
    fn marks_that_should_have_been_encoded_stay_in_the_name() {
        for (field, expected) in [
            ("filename*=utf-8''it's%20o'clock.txt", "it's o'clock.txt"),
            ("filename*=utf-8''report(1)%20(2).txt", "report(1) (2).txt"),
            ("filename*=utf-8''plan.txt (a comment; of sorts)", "plan.txt"),
        ] {
            assert_eq!(name(field).as_deref(), Some(expected), "{field}");
        }
    }

    #[test]
    fn a_forgotten_semicolon_is_added_and_no_other() {
        for (text, expected) in [
            (" text/html charset=utf-8", "text/html; charset=utf-8"),
            ("attachment\r\n filename*0=a; x=y", "attachment;\r\n filename*0=a; x=y"),
        ] {
            assert_eq!(separated(text), expected);
        }
        for text in
            ["", " ", "text/html", "text/html ;charset=x", "a b", "a b =c", "=a b=c", "a (b=c)", "a=b c=d", "a \"b=c\""]
        {
            assert_eq!(separated(text), text);
        }
    }

    /// Encodes a name as Python does: split wherever a line is full, with everything but letters and digits
    /// encoded.
    fn encoded(name: &str, bytes_each: usize) -> String {
        let sections = name.as_bytes().chunks(bytes_each).enumerate().map(|(number, bytes)| {
            let start = if number == 0 { "utf-8''" } else { "" };
            let value = percent_encoding::percent_encode(bytes, percent_encoding::NON_ALPHANUMERIC);
            format!("filename*{number}*={start}{value}")
        });
        // The order of sections must not matter.
        sections.rev().collect::<Vec<_>>().join(";\r\n ")
    }

    proptest! {
        #[test]
        fn an_encoded_name_comes_back_however_it_is_cut(original in "\\PC{1,30}", bytes_each in 1_usize..40) {
            let whole = percent_encoding::utf8_percent_encode(&original, percent_encoding::NON_ALPHANUMERIC);
            for field in [encoded(&original, bytes_each), format!("filename=x; filename*=utf-8''{whole}")] {
                prop_assert_eq!(name(&field), Some(original.clone()));
            }
        }

        #[test]
        fn any_field_is_read(text in prop_oneof![
            any::<String>(),
            "([;=*'%\"\\\\() é]|a|filename\\*|[0-9]{1,2}|\\*=|utf-8''|iso-2022-jp'en'|%[0-9A-F]{2}){0,40}",
        ]) {
            let (value, parameters) = written(&text);
            let separated = separated(&text);
            prop_assert!(separated.len() <= text.len() + 1);
            prop_assert!(value.len() <= text.len() && parameters.iter().all(|(name, _)| !name.is_empty()));
            prop_assert!(extended(parameters).values().all(|value| !value.is_empty()));
        }
    }
}
