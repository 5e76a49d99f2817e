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
    /// `RFC822.SIZE`
    Size,
    /// `ENVELOPE`
    Envelope,
    /// `BODY`: the structure without extension data.
    Body,
    /// `BODYSTRUCTURE`
    BodyStructure,
    /// `BODY[...]` and the three `RFC822` items.
    Section(SectionItem),
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
        "FLAGS" => FetchItem::Flags,
        "UID" => FetchItem::Uid,
        "INTERNALDATE" => FetchItem::InternalDate,
        "RFC822.SIZE" => FetchItem::Size,
        "ENVELOPE" => FetchItem::Envelope,
        "BODY" => FetchItem::Body,
        "BODYSTRUCTURE" => FetchItem::BodyStructure,
        "RFC822" => rfc822(SectionLabel::Rfc822, SectionText::All, false),
        "RFC822.HEADER" => rfc822(SectionLabel::Rfc822Header, SectionText::Header, true),
        "RFC822.TEXT" => rfc822(SectionLabel::Rfc822Text, SectionText::Text, false),
        _ => return Err(SyntaxError("unknown fetch item")),
    })
}

fn body_section(cursor: &mut Cursor, peek: bool) -> Result<FetchItem, SyntaxError> {
    let section = Section::parse(cursor)?;
    let partial = partial(cursor)?;
    Ok(FetchItem::Section(SectionItem { label: SectionLabel::Body, section, partial, peek }))
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
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
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
