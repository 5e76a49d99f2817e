//! FETCH responses (RFC 3501 section 7.4.2).

use super::body_structure::{BodyStructure, skip};
use super::command::FetchAttribute;
use super::envelope::Envelope;
use super::section::{Section, SectionText};
use crate::datetime;
use crate::token::{Cursor, SyntaxError};

/// The data of one message in a FETCH response, solicited or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchedMessage {
    /// The current sequence number.
    pub sequence: u32,
    /// The UID.
    pub uid: Option<u32>,
    /// The flags as written.
    pub flags: Option<Vec<String>>,
    /// Size of the whole message in octets (RFC822.SIZE).
    pub size: Option<u64>,
    /// Arrival time (INTERNALDATE) in seconds since the Unix epoch.
    pub arrived: Option<i64>,
    /// The envelope.
    pub envelope: Option<Box<Envelope>>,
    /// The structure.
    pub body_structure: Option<BodyStructure>,
    /// The fetched sections.
    pub sections: Vec<FetchedSection>,
}

/// A fetched section of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedSection {
    /// The section.
    pub section: Section,
    /// The first octet, if a range was requested.
    pub origin: Option<u64>,
    /// The octets; `None` if the server has no such section, empty if they were streamed.
    pub bytes: Option<Vec<u8>>,
}

impl FetchedMessage {
    /// Reads the list of attributes; the cursor is before its parenthesis.
    pub(super) fn read(cursor: &mut Cursor, sequence: u32, max_depth: usize) -> Result<Self, SyntaxError> {
        let mut message = Self { sequence, ..Self::default() };
        cursor.byte(b'(', "expected a list")?;
        while !cursor.try_byte(b')') {
            cursor.count()?;
            message.read_attribute(cursor, max_depth)?;
            // Read leniently: accept a missing or trailing space.
            cursor.try_byte(b' ');
        }
        Ok(message)
    }

    fn read_attribute(&mut self, cursor: &mut Cursor, max_depth: usize) -> Result<(), SyntaxError> {
        let attribute = Attribute::named(cursor.written_keyword()?);
        if attribute == Attribute::Body && cursor.peek() == Some(b'[') {
            self.sections.push(read_section(cursor)?);
            return Ok(());
        }
        cursor.space()?;
        match attribute {
            Attribute::Uid => self.uid = Some(cursor.number()?),
            Attribute::Flags => self.flags = Some(cursor.written_flags()?),
            Attribute::Size => self.size = Some(cursor.number64()?),
            // Some servers have no date of a damaged message.
            Attribute::Arrived if cursor.try_keyword("NIL") => {}
            Attribute::Arrived => {
                let read = |date: &[u8]| std::str::from_utf8(date).ok().and_then(datetime::parse_date_time);
                self.arrived = cursor.string_as(read)?.map(jiff::Timestamp::as_second);
            }
            Attribute::Envelope => self.envelope = Some(Box::new(Envelope::read(cursor)?)),
            Attribute::BodyStructure => self.body_structure = Some(BodyStructure::read(cursor, max_depth)?),
            Attribute::Body | Attribute::Other => skip(cursor)?,
        }
        Ok(())
    }

    /// Whether the response has an envelope, a structure or sections: data that comes only on request.
    pub fn has_contents(&self) -> bool {
        self.envelope.is_some() || self.body_structure.is_some() || !self.sections.is_empty()
    }

    /// Whether the response has all sections, structures and sizes that these attributes request. A section that
    /// the server lacks counts as missing.
    pub fn has_all(&self, attributes: &[FetchAttribute]) -> bool {
        attributes.iter().all(|attribute| match attribute {
            FetchAttribute::Envelope => self.envelope.is_some(),
            FetchAttribute::BodyStructure => self.body_structure.is_some(),
            FetchAttribute::Section(_) | FetchAttribute::SectionSlice(..) => {
                let answers = |fetched: &&FetchedSection| attribute.is_answered_by(fetched);
                self.sections.iter().find(answers).is_some_and(|fetched| fetched.bytes.is_some())
            }
            FetchAttribute::Size => self.size.is_some(),
            FetchAttribute::Flags | FetchAttribute::Arrived => true,
        })
    }

    /// The octets of the first section of this kind.
    pub fn section(&self, part: &[u32], text: &SectionText) -> Option<&[u8]> {
        let same = |fetched: &&FetchedSection| fetched.section.part == part && fetched.section.text == *text;
        self.sections.iter().find(same)?.bytes.as_deref()
    }

    /// Takes the octets of the first section of this kind.
    pub fn take_section(&mut self, part: &[u32], text: &SectionText) -> Option<Vec<u8>> {
        let same = |fetched: &&mut FetchedSection| fetched.section.part == part && fetched.section.text == *text;
        self.sections.iter_mut().find(same)?.bytes.take()
    }

    /// The octets of the range of a part that begins at `origin`.
    pub fn slice(&self, part: &[u32], origin: u64) -> Option<&[u8]> {
        let same = |fetched: &&FetchedSection| fetched.section.part == part && fetched.origin == Some(origin);
        self.sections.iter().find(same)?.bytes.as_deref()
    }
}

/// A data item of a FETCH response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attribute {
    Uid,
    Flags,
    Size,
    Arrived,
    Envelope,
    BodyStructure,
    /// A section, or a structure without extension data.
    Body,
    Other,
}

impl Attribute {
    fn named(name: &str) -> Self {
        const NAMES: [(&str, Attribute); 7] = [
            ("UID", Attribute::Uid),
            ("FLAGS", Attribute::Flags),
            ("RFC822.SIZE", Attribute::Size),
            ("INTERNALDATE", Attribute::Arrived),
            ("ENVELOPE", Attribute::Envelope),
            ("BODYSTRUCTURE", Attribute::BodyStructure),
            ("BODY", Attribute::Body),
        ];
        let known = NAMES.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        known.map_or(Self::Other, |(_, attribute)| attribute)
    }
}

fn read_section(cursor: &mut Cursor) -> Result<FetchedSection, SyntaxError> {
    let section = Section::read(cursor)?;
    let origin = if cursor.try_byte(b'<') {
        let origin = cursor.number64()?;
        cursor.byte(b'>', "expected the end of an origin")?;
        Some(origin)
    } else {
        None
    };
    cursor.space()?;
    // A message may hold any octet, even NUL, although the grammar forbids NUL in literals.
    let bytes = match cursor.peek() {
        None => Some(cursor.literal()?),
        Some(_) => cursor.nstring()?,
    };
    Ok(FetchedSection { section, origin, bytes })
}
