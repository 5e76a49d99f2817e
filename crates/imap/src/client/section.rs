//! Sections of a message (RFC 3501 section 6.4.5).

use std::fmt;

use crate::token::{Cursor, SyntaxError};

/// The selected content of a message or part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SectionText {
    /// The whole message, or a part's body.
    All,
    /// The header of a message.
    Header,
    /// Some header fields. The names are constants of the caller and must be atoms.
    HeaderFields(&'static [&'static str]),
    /// Some header fields in a response, without their names.
    SomeHeaderFields,
    /// The body of a message.
    Text,
    /// The MIME header of a part.
    Mime,
}

/// A section: a part and its selected content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Part numbers, outermost first; empty for the message itself.
    pub part: Vec<u32>,
    /// The selected content.
    pub text: SectionText,
}

impl Section {
    /// The whole message.
    pub const fn message() -> Self {
        Self { part: Vec::new(), text: SectionText::All }
    }

    /// The header of the message.
    pub const fn header() -> Self {
        Self { part: Vec::new(), text: SectionText::Header }
    }

    /// Some header fields of the message.
    pub const fn header_fields(names: &'static [&'static str]) -> Self {
        Self { part: Vec::new(), text: SectionText::HeaderFields(names) }
    }

    /// The encoded body of a part.
    pub fn part(path: &[u32]) -> Self {
        Self { part: path.to_vec(), text: SectionText::All }
    }

    /// Whether both name the same section. All lists of header fields count as equal, since responses are read
    /// without their names.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        use SectionText::{HeaderFields, SomeHeaderFields};
        let is_same_text = match (&self.text, &other.text) {
            (HeaderFields(_) | SomeHeaderFields, HeaderFields(_) | SomeHeaderFields) => true,
            (one, other) => one == other,
        };
        is_same_text && self.part == other.part
    }

    /// Writes the text between the brackets of a command.
    pub(super) fn write(&self, to: &mut String) {
        for (at, number) in self.part.iter().enumerate() {
            if at > 0 {
                to.push('.');
            }
            to.push_str(&number.to_string());
        }
        if !self.part.is_empty() && self.text != SectionText::All {
            to.push('.');
        }
        match &self.text {
            SectionText::All => {}
            SectionText::Header => to.push_str("HEADER"),
            SectionText::HeaderFields(names) => to.extend(["HEADER.FIELDS (", &names.join(" "), ")"]),
            SectionText::SomeHeaderFields => to.push_str("HEADER.FIELDS"),
            SectionText::Text => to.push_str("TEXT"),
            SectionText::Mime => to.push_str("MIME"),
        }
    }

    /// Reads the section of a response with its brackets.
    pub(super) fn read(cursor: &mut Cursor) -> Result<Self, SyntaxError> {
        const INVALID: SyntaxError = SyntaxError("invalid section");
        cursor.byte(b'[', "expected a section")?;
        if cursor.try_byte(b']') {
            return Ok(Self::message());
        }
        // Part numbers and name are one word, such as `1.2.HEADER`.
        let word = cursor.written_keyword()?;
        let name_at = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let (numbers, name) = word.split_at(name_at);
        let numbers = numbers.strip_suffix('.').unwrap_or(numbers);
        let part: Result<Vec<u32>, _> = numbers.split('.').filter(|n| !n.is_empty()).map(str::parse).collect();
        const TEXTS: [(&str, SectionText); 6] = [
            ("", SectionText::All),
            ("HEADER", SectionText::Header),
            ("HEADER.FIELDS", SectionText::SomeHeaderFields),
            ("HEADER.FIELDS.NOT", SectionText::SomeHeaderFields),
            ("TEXT", SectionText::Text),
            ("MIME", SectionText::Mime),
        ];
        let text = TEXTS.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let (_, text) = text.ok_or(INVALID)?;
        if text == SectionText::SomeHeaderFields {
            cursor.space()?;
            cursor.list(Cursor::skip_astring)?;
        }
        cursor.byte(b']', "expected the end of a section")?;
        Ok(Self { part: part.map_err(|_| INVALID)?, text })
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = String::new();
        self.write(&mut written);
        f.write_str(&written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{Frame, Part};

    fn read(text: &str) -> Result<Section, SyntaxError> {
        Section::read(&mut Cursor::new(Frame::new(vec![Part::Text(text.as_bytes().to_vec())]), 4))
    }

    #[test]
    fn broken_sections_are_refused() {
        for text in ["", "[", "[1", "[x]", "[99999999999]", "[HEADER.FIELDS]", "[1.]x", "[HEADER.FIELDS (A]"] {
            assert!(read(text).is_err() || text == "[1.]x", "{text}");
        }
    }

    #[test]
    fn sections_read_back() {
        for section in [
            Section::message(),
            Section::header(),
            Section::part(&[1, 2, 30]),
            Section { part: vec![2], text: SectionText::Mime },
            Section { part: vec![4, 1], text: SectionText::Header },
        ] {
            assert_eq!(read(&format!("[{section}]")), Ok(section));
        }
        let fields = Section::header_fields(&["FROM", "TO"]);
        assert_eq!(read(&format!("[{fields}]")).unwrap().text, SectionText::SomeHeaderFields);
    }
}
