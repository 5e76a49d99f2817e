//! FETCH responses.

use std::borrow::Cow;
use std::ops::Range;

use jiff::Timestamp;

use super::{body_structure, envelope};
use crate::datetime::format_date_time;
use crate::flag::Flags;
use crate::server::command::{FetchItem, Partial, SectionItem, SectionLabel, SectionText};
use crate::server::mime::{BodyStructure, Envelope, PartRange, header_fields};
use crate::token::Writer;

/// A message for FETCH. Each method is called at most once per item, so that a host can load data on demand.
pub trait MessageSource {
    /// Its UID.
    fn uid(&self) -> u32;
    /// Its current flags, including `\Seen` if this FETCH has set it.
    fn flags(&self) -> &Flags;
    /// The time of its receipt (INTERNALDATE).
    fn internal_date(&self) -> Timestamp;
    /// Its size in octets.
    fn size(&self) -> u64;
    /// Its envelope.
    fn envelope(&self) -> Envelope;
    /// Its structure.
    fn body_structure(&self) -> BodyStructure;
    /// Bytes of a section; `None` if there is no such part. [`crate::server::mime::PartLayout::locate`] finds
    /// them.
    fn section(&self, path: &[u32], range: PartRange) -> Option<Cow<'_, [u8]>>;
    /// The range of those octets, for a host that sends them itself and need not load them. The range is returned
    /// by [`super::super::session::Session::take_span`]. On `None`, [`MessageSource::section`] is called.
    fn section_span(&self, _path: &[u32], _range: PartRange) -> Option<Range<u64>> {
        None
    }
}

/// Writes `* n FETCH (...)` with its line end.
pub(in crate::server) fn write(
    writer: &mut Writer,
    number: u32,
    items: &[FetchItem],
    message: &dyn MessageSource,
    is_recent: bool,
) {
    writer.raw("* ").number(u64::from(number)).raw(" FETCH ");
    writer.list(items, |writer, item| write_item(writer, item, message, is_recent));
    writer.crlf();
}

/// Writes `* n FETCH (UID u FLAGS (...))` with its line end.
pub(in crate::server) fn write_flags(writer: &mut Writer, number: u32, uid: u32, flags: &Flags, is_recent: bool) {
    writer.raw("* ").number(u64::from(number)).raw(" FETCH (UID ").number(u64::from(uid)).raw(" ");
    flags_item(writer, flags, is_recent);
    writer.raw(")").crlf();
}

fn flags_item(writer: &mut Writer, flags: &Flags, is_recent: bool) {
    writer.raw("FLAGS ").list(flags.words().chain(is_recent.then_some("\\Recent")), |writer, word| {
        writer.raw(word);
    });
}

fn write_item(writer: &mut Writer, item: &FetchItem, message: &dyn MessageSource, is_recent: bool) {
    match item {
        FetchItem::Flags => flags_item(writer, message.flags(), is_recent),
        FetchItem::Uid => {
            writer.raw("UID ").number(u64::from(message.uid()));
        }
        FetchItem::InternalDate => {
            writer.raw("INTERNALDATE ").string(format_date_time(message.internal_date()).as_bytes());
        }
        FetchItem::Size => {
            writer.raw("RFC822.SIZE ").number(message.size());
        }
        FetchItem::Envelope => {
            writer.raw("ENVELOPE ");
            envelope::write(writer, &message.envelope());
        }
        FetchItem::Body => {
            writer.raw("BODY ");
            body_structure::write(writer, &message.body_structure(), false);
        }
        FetchItem::BodyStructure => {
            writer.raw("BODYSTRUCTURE ");
            body_structure::write(writer, &message.body_structure(), true);
        }
        FetchItem::Section(item) => section(writer, item, message),
    }
}

fn section(writer: &mut Writer, item: &SectionItem, message: &dyn MessageSource) {
    match item.label {
        SectionLabel::Body => {
            writer.raw("BODY");
            item.section.write(writer);
        }
        SectionLabel::Rfc822 => {
            writer.raw("RFC822");
        }
        SectionLabel::Rfc822Header => {
            writer.raw("RFC822.HEADER");
        }
        SectionLabel::Rfc822Text => {
            writer.raw("RFC822.TEXT");
        }
    }
    if let Some(Partial { origin, .. }) = item.partial {
        writer.raw("<").number(u64::from(origin)).raw(">");
    }
    writer.raw(" ");
    // Prefer a span: the host then sends the octets without loading the message.
    if let Some(span) = span(item, message) {
        writer.literal_span(item.partial.map_or(span.clone(), |partial| partial.narrow(span)));
        return;
    }
    match bytes(item, message) {
        None => {
            writer.raw("NIL");
        }
        Some(bytes) => {
            let bytes = item.partial.map_or(&*bytes, |partial| partial.slice(&bytes));
            writer.literal(bytes);
        }
    }
}

fn bytes<'m>(item: &SectionItem, message: &'m dyn MessageSource) -> Option<Cow<'m, [u8]>> {
    let bytes = message.section(&item.section.path, part_range(&item.section.text))?;
    Some(match &item.section.text {
        SectionText::HeaderFields { names, not } => Cow::Owned(header_fields(&bytes, names, *not)),
        _ => bytes,
    })
}

/// The range of a section in the message. `None` for selected header fields: they are not contiguous.
fn span(item: &SectionItem, message: &dyn MessageSource) -> Option<Range<u64>> {
    let picked = matches!(item.section.text, SectionText::HeaderFields { .. });
    if picked { None } else { message.section_span(&item.section.path, part_range(&item.section.text)) }
}

const fn part_range(text: &SectionText) -> PartRange {
    match text {
        SectionText::All => PartRange::All,
        SectionText::Header | SectionText::HeaderFields { .. } => PartRange::Header,
        SectionText::Text => PartRange::Text,
        SectionText::Mime => PartRange::Mime,
    }
}
