//! The items of FETCH.

use super::section::{Partial, Section, SectionText, partial};
use crate::token::{Cursor, SyntaxError};

/// A data item of FETCH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchItem {
    /// `FLAGS`
    Flags,
    /// `UID`
    Uid,
    /// `INTERNALDATE`
    InternalDate,
    /// `SAVEDATE` (RFC 8514)
    SaveDate,
    /// `RFC822.SIZE`
    Size,
    /// `MODSEQ` (RFC 7162)
    Modseq,
    /// `ENVELOPE`
    Envelope,
    /// `BODY`: the structure without extension data.
    Body,
    /// `BODYSTRUCTURE`
    BodyStructure,
    /// `PREVIEW` (RFC 8970)
    Preview,
    /// `EMAILID` (RFC 8474)
    EmailId,
    /// `THREADID` (RFC 8474)
    ThreadId,
    /// `BODY[...]` and the three `RFC822` items.
    Section(SectionItem),
    /// `BINARY[...]` and `BINARY.PEEK[...]` (RFC 3516)
    Binary(BinaryItem),
    /// `BINARY.SIZE[...]`, with part numbers
    BinarySize(Vec<u32>),
}

impl FetchItem {
    /// Whether reading the item sets `\Seen`.
    pub(crate) fn sets_seen(&self) -> bool {
        match self {
            Self::Section(SectionItem { peek, .. }) | Self::Binary(BinaryItem { peek, .. }) => !peek,
            _ => false,
        }
    }

    /// The part numbers of an item that needs the part decoded.
    pub fn decoded_part(&self) -> Option<&[u32]> {
        match self {
            Self::Binary(BinaryItem { path, .. }) | Self::BinarySize(path) => Some(path),
            _ => None,
        }
    }
}

/// A part of a message without its transfer encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinaryItem {
    /// Part numbers from the outermost inwards; empty for the whole message, which has no transfer encoding.
    pub path: Vec<u32>,
    /// The requested range of its decoded octets.
    pub partial: Option<Partial>,
    /// Whether reading leaves `\Seen` unset.
    pub peek: bool,
}

/// A section of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionItem {
    /// The name of the item in the response.
    pub label: SectionLabel,
    /// The section.
    pub section: Section,
    /// The requested range of it.
    pub partial: Option<Partial>,
    /// Whether reading leaves `\Seen` unset.
    pub peek: bool,
}

/// The name of a section in the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionLabel {
    /// `BODY[...]`
    Body,
    /// `RFC822`
    Rfc822,
    /// `RFC822.HEADER`
    Rfc822Header,
    /// `RFC822.TEXT`
    Rfc822Text,
}

pub(super) fn items(cursor: &mut Cursor) -> Result<Vec<FetchItem>, SyntaxError> {
    let items = if cursor.peek() == Some(b'(') { cursor.list(item)? } else { macro_or_item(cursor)? };
    if items.is_empty() { Err(SyntaxError("expected a fetch item")) } else { Ok(items) }
}

fn macro_or_item(cursor: &mut Cursor) -> Result<Vec<FetchItem>, SyntaxError> {
    use FetchItem::{Body, Envelope, Flags, InternalDate, Size};
    if cursor.try_keyword("FAST") {
        return Ok(vec![Flags, InternalDate, Size]);
    }
    if cursor.try_keyword("ALL") {
        return Ok(vec![Flags, InternalDate, Size, Envelope]);
    }
    if cursor.try_keyword("FULL") {
        return Ok(vec![Flags, InternalDate, Size, Envelope, Body]);
    }
    Ok(vec![item(cursor)?])
}

fn item(cursor: &mut Cursor) -> Result<FetchItem, SyntaxError> {
    let name = cursor.keyword()?;
    let bracket = cursor.peek() == Some(b'[');
    Ok(match name.as_str() {
        "BODY" if bracket => body_section(cursor, false)?,
        "BODY.PEEK" if bracket => body_section(cursor, true)?,
        "BINARY" if bracket => binary(cursor, false)?,
        "BINARY.PEEK" if bracket => binary(cursor, true)?,
        "BINARY.SIZE" if bracket => FetchItem::BinarySize(part(cursor)?),
        "FLAGS" => FetchItem::Flags,
        "UID" => FetchItem::Uid,
        "INTERNALDATE" => FetchItem::InternalDate,
        "SAVEDATE" => FetchItem::SaveDate,
        "RFC822.SIZE" => FetchItem::Size,
        "MODSEQ" => FetchItem::Modseq,
        "ENVELOPE" => FetchItem::Envelope,
        "BODY" => FetchItem::Body,
        "BODYSTRUCTURE" => FetchItem::BodyStructure,
        "PREVIEW" => preview(cursor)?,
        "EMAILID" => FetchItem::EmailId,
        "THREADID" => FetchItem::ThreadId,
        "RFC822" => rfc822(SectionLabel::Rfc822, SectionText::All, false),
        "RFC822.HEADER" => rfc822(SectionLabel::Rfc822Header, SectionText::Header, true),
        "RFC822.TEXT" => rfc822(SectionLabel::Rfc822Text, SectionText::Text, false),
        _ => return Err(SyntaxError("unknown fetch item")),
    })
}

/// Reads ` (LAZY)` after `PREVIEW`, if present. It changes nothing: every preview is at hand. In `FETCH 1 PREVIEW (x)`,
/// the parenthesis may also begin the modifiers of FETCH.
fn preview(cursor: &mut Cursor) -> Result<FetchItem, SyntaxError> {
    if cursor.starts_with(" (LAZY") {
        cursor.space()?;
        cursor.list(|cursor| {
            if cursor.try_keyword("LAZY") { Ok(()) } else { Err(SyntaxError("unknown modifier of PREVIEW")) }
        })?;
    }
    Ok(FetchItem::Preview)
}

fn body_section(cursor: &mut Cursor, peek: bool) -> Result<FetchItem, SyntaxError> {
    let section = Section::parse(cursor)?;
    let partial = partial(cursor)?;
    Ok(FetchItem::Section(SectionItem { label: SectionLabel::Body, section, partial, peek }))
}

fn binary(cursor: &mut Cursor, peek: bool) -> Result<FetchItem, SyntaxError> {
    let path = part(cursor)?;
    Ok(FetchItem::Binary(BinaryItem { path, partial: partial(cursor)?, peek }))
}

/// Reads part numbers in brackets.
fn part(cursor: &mut Cursor) -> Result<Vec<u32>, SyntaxError> {
    match Section::parse(cursor)? {
        Section { path, text: SectionText::All } => Ok(path),
        _ => Err(SyntaxError("expected part numbers")),
    }
}

fn rfc822(label: SectionLabel, text: SectionText, peek: bool) -> FetchItem {
    let section = Section { path: Vec::new(), text };
    FetchItem::Section(SectionItem { label, section, partial: None, peek })
}

#[cfg(test)]
mod tests {
    use super::super::Command;
    use super::super::tests::parse;
    use super::*;

    fn items(line: &str) -> Vec<FetchItem> {
        let Ok(Command::Fetch { items, .. }) = parse(line) else { panic!("{line}") };
        items
    }

    #[test]
    fn broken_items_are_refused() {
        for line in [
            "a FETCH 1 (FLAGS",
            "a FETCH 1 FOO",
            "a FETCH 1 BODY[",
            "a FETCH 1 BODY[]<0>",
            "a FETCH 1 BODY[]<0.0>",
            "a FETCH 1 BODY.PEEK",
            "a FETCH 1 (ALL)",
            "a FETCH 1 (FLAGS UID) x",
            "a FETCH 1 RFC822[]",
            "a FETCH 1 BODY[1",
            "a FETCH 1 PREVIEW (LAZY LAZYX)",
            "a FETCH 1 (PREVIEW (SOON))",
            "a FETCH 1 PREVIEW ()",
            "a FETCH 1 BINARY",
            "a FETCH 1 BINARY[TEXT]",
            "a FETCH 1 BINARY.PEEK[1.MIME]",
            "a FETCH 1 BINARY.SIZE[0]",
            "a FETCH 1 BINARY.SIZE[1]<0.1>",
            "a FETCH 1 BINARY[1]<0.0>",
            "a FETCH 1 PREVIEW (LAZY",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn decoded_parts_are_named_by_numbers() {
        let binary = |path: &[u32], partial, peek| FetchItem::Binary(BinaryItem { path: path.to_vec(), partial, peek });
        let range = Some(Partial { origin: 5, length: 9 });
        assert_eq!(items("a FETCH 1 BINARY[]"), [binary(&[], None, false)]);
        assert_eq!(items("a FETCH 1 (BINARY.PEEK[1.2]<5.9>)"), [binary(&[1, 2], range, true)]);
        assert_eq!(items("a FETCH 1 binary.size[3]"), [FetchItem::BinarySize(vec![3])]);
    }

    #[test]
    fn a_preview_is_lazy_or_not() {
        assert_eq!(items("a FETCH 1 PREVIEW"), [FetchItem::Preview]);
        assert_eq!(items("a FETCH 1 preview (lazy)"), [FetchItem::Preview]);
        assert_eq!(items("a FETCH 1 (PREVIEW (LAZY) UID)"), [FetchItem::Preview, FetchItem::Uid]);
        assert_eq!(items("a FETCH 1 PREVIEW (CHANGEDSINCE 5)"), [FetchItem::Preview]);
        assert_eq!(items("a FETCH 1 PREVIEW (LAZY) (CHANGEDSINCE 5)"), [FetchItem::Preview]);
    }

    #[test]
    fn sections_and_macros_are_read() {
        assert_eq!(items("a FETCH 1 FAST").len(), 3);
        assert_eq!(items("a FETCH 1 full").len(), 5);
        let wanted = items("a UID FETCH 1:* (UID BODY.PEEK[HEADER.FIELDS (FROM)]<0.10> RFC822.SIZE BODY[])");
        assert_eq!(wanted.len(), 4);
        let FetchItem::Section(section) = &wanted[1] else { panic!() };
        assert!(section.peek && section.partial == Some(Partial { origin: 0, length: 10 }));
        assert!(matches!(&wanted[3], FetchItem::Section(SectionItem { peek: false, .. })));
    }
}
