//! Sections of a message: `BODY[1.2.HEADER.FIELDS (From)]<0.100>`.

use std::ops::Range;

use crate::token::{Cursor, SyntaxError, Writer};

/// A section of a message (RFC 3501 section 6.4.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Part numbers from the outermost inwards; empty for the message itself.
    pub path: Vec<u32>,
    /// The selected content of that part.
    pub text: SectionText,
}

/// The selected content of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SectionText {
    /// Everything: header and body of the message, or the body of a part without its MIME header.
    All,
    /// The header of the message, or of the message inside a message/rfc822 part.
    Header,
    /// Some header fields and the empty line.
    HeaderFields {
        /// The field names as written.
        names: Vec<Vec<u8>>,
        /// True for HEADER.FIELDS.NOT: all fields except these.
        not: bool,
    },
    /// The body of the message, or of the message inside a message/rfc822 part.
    Text,
    /// The MIME header of a part.
    Mime,
}

/// `<origin.length>`: a range of octets of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partial {
    /// The first octet.
    pub origin: u32,
    /// The maximum number of octets, above zero.
    pub length: u32,
}

impl Partial {
    /// Returns the part of `bytes` within this range.
    pub fn slice(self, bytes: &[u8]) -> &[u8] {
        let from = usize::try_from(self.origin).unwrap_or(usize::MAX).min(bytes.len());
        let length = usize::try_from(self.length).unwrap_or(usize::MAX).min(bytes.len() - from);
        &bytes[from..from + length]
    }

    /// Returns the part of `span` within this range, for octets that are not in memory.
    pub fn narrow(self, span: Range<u64>) -> Range<u64> {
        let start = span.start.saturating_add(u64::from(self.origin)).min(span.end);
        start..start.saturating_add(u64::from(self.length)).min(span.end)
    }
}

impl Section {
    /// The whole message.
    pub fn whole() -> Self {
        Self { path: Vec::new(), text: SectionText::All }
    }

    /// Reads a section with its brackets.
    pub(super) fn parse(cursor: &mut Cursor) -> Result<Self, SyntaxError> {
        cursor.byte(b'[', "expected a section")?;
        if cursor.try_byte(b']') {
            return Ok(Self::whole());
        }
        let word = cursor.keyword()?;
        let mut rest = word.as_str();
        let mut path = Vec::new();
        while rest.starts_with(|c: char| c.is_ascii_digit()) {
            let (number, after) = rest.split_once('.').unwrap_or((rest, ""));
            if after.is_empty() && rest.ends_with('.') {
                return Err(SyntaxError("invalid section"));
            }
            let number: u32 = number.parse().map_err(|_| SyntaxError("invalid part number"))?;
            if number == 0 {
                return Err(SyntaxError("invalid part number"));
            }
            path.push(number);
            rest = after;
        }
        let text = match rest {
            "" => SectionText::All,
            "HEADER" => SectionText::Header,
            "TEXT" => SectionText::Text,
            "MIME" if !path.is_empty() => SectionText::Mime,
            "HEADER.FIELDS" => SectionText::HeaderFields { names: header_list(cursor)?, not: false },
            "HEADER.FIELDS.NOT" => SectionText::HeaderFields { names: header_list(cursor)?, not: true },
            _ => return Err(SyntaxError("invalid section")),
        };
        cursor.byte(b']', "expected the end of a section")?;
        Ok(Self { path, text })
    }

    /// Writes the section in brackets, as the response must repeat it.
    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.raw("[");
        let numbers: Vec<String> = self.path.iter().map(u32::to_string).collect();
        writer.raw(&numbers.join("."));
        let word = match &self.text {
            SectionText::All => "",
            SectionText::Header => "HEADER",
            SectionText::Text => "TEXT",
            SectionText::Mime => "MIME",
            SectionText::HeaderFields { not: false, .. } => "HEADER.FIELDS",
            SectionText::HeaderFields { not: true, .. } => "HEADER.FIELDS.NOT",
        };
        if !word.is_empty() {
            writer.raw(if self.path.is_empty() { "" } else { "." }).raw(word);
        }
        if let SectionText::HeaderFields { names, .. } = &self.text {
            writer.raw(" ").list(names, |writer, name| {
                writer.astring(name);
            });
        }
        writer.raw("]");
    }
}

fn header_list(cursor: &mut Cursor) -> Result<Vec<Vec<u8>>, SyntaxError> {
    cursor.space()?;
    let names = cursor.list(Cursor::astring)?;
    if names.is_empty() { Err(SyntaxError("expected a header field")) } else { Ok(names) }
}

/// Reads `<origin.length>`, if present.
pub(super) fn partial(cursor: &mut Cursor) -> Result<Option<Partial>, SyntaxError> {
    if !cursor.try_byte(b'<') {
        return Ok(None);
    }
    let origin = cursor.number()?;
    cursor.byte(b'.', "expected a length")?;
    let length = cursor.number()?;
    cursor.byte(b'>', "expected the end of a range")?;
    if length == 0 { Err(SyntaxError("a range cannot be empty")) } else { Ok(Some(Partial { origin, length })) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{Frame, Part};
    use proptest::prelude::*;

    fn section(text: &str) -> Result<Section, SyntaxError> {
        Section::parse(&mut Cursor::new(Frame::new(vec![Part::Text(text.as_bytes().to_vec())]), 8))
    }

    #[test]
    fn sections_that_do_not_exist_are_refused() {
        for text in [
            "",
            "[",
            "[0]",
            "[1.]",
            "[.1]",
            "[MIME]",
            "[FOO]",
            "[HEADER.FIELDS]",
            "[HEADER.FIELDS ()]",
            "[1.HEADERX]",
            "[99999999999]",
            "[1..2]",
        ] {
            assert!(section(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_section_is_repeated_as_it_was_asked_for() {
        for text in [
            "[]",
            "[1]",
            "[1.2.MIME]",
            "[HEADER]",
            "[TEXT]",
            "[3.TEXT]",
            "[HEADER.FIELDS (From To)]",
            "[1.HEADER.FIELDS.NOT (\"a b\")]",
        ] {
            let mut writer = Writer::new();
            section(text).unwrap().write(&mut writer);
            assert_eq!(String::from_utf8(writer.take()).unwrap(), text);
        }
    }

    proptest! {
        #[test]
        fn a_range_stays_inside(bytes in prop::collection::vec(any::<u8>(), 0..20), origin: u32, length in 1u32..) {
            let slice = Partial { origin, length }.slice(&bytes);
            prop_assert!(slice.len() <= bytes.len());
            let small = Partial { origin: origin % 24, length: length % 24 }.slice(&bytes);
            let expected: Vec<u8> = bytes.iter().copied().skip((origin % 24) as usize).take((length % 24) as usize).collect();
            prop_assert_eq!(small, expected);
            let span = Partial { origin, length }.narrow(3..3 + bytes.len() as u64);
            prop_assert_eq!((span.end - span.start) as usize, slice.len());
        }
    }
}
