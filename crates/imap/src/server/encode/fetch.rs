//! FETCH responses.

use std::borrow::Cow;
use std::ops::Range;

use jiff::Timestamp;

use super::{body_structure, envelope};
use crate::datetime::format_date_time;
use crate::flag::Flags;
use crate::server::ObjectId;
use crate::server::command::{BinaryItem, FetchItem, Partial, Section, SectionItem, SectionLabel, SectionText};
use crate::server::mime::{BodyStructure, Envelope, PartRange, header_fields};
use crate::token::Writer;

/// A part without its transfer encoding (RFC 3516).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binary<'m> {
    /// The message does not have the part.
    Missing,
    /// The name of its transfer encoding is unknown.
    UnknownEncoding,
    /// Its octets.
    Octets(Cow<'m, [u8]>),
    /// The host sends the octets itself: [`super::super::session::Session::take_span`] returns their range.
    Span {
        /// The number of decoded octets.
        length: u64,
        /// Whether NUL is among them.
        has_nul: bool,
    },
}

/// A message for FETCH. Each method is called at most once per item, so that a host can load data on demand.
pub trait MessageSource {
    /// Its UID.
    fn uid(&self) -> u32;
    /// Its current flags, including `\Seen` if this FETCH has set it.
    fn flags(&self) -> &Flags;
    /// The modification sequence of its last change.
    fn modseq(&self) -> u64;
    /// The time of its receipt (INTERNALDATE).
    fn internal_date(&self) -> Timestamp;
    /// The time at which it was added to this mailbox (RFC 8514).
    fn save_date(&self) -> Timestamp;
    /// Its size in octets.
    fn size(&self) -> u64;
    /// Its envelope.
    fn envelope(&self) -> Envelope;
    /// Its structure.
    fn body_structure(&self) -> BodyStructure;
    /// The identifier of its content. It stays when the message is copied or moved.
    fn email_id(&self) -> ObjectId;
    /// The beginning of its text, at most 256 characters on one line (RFC 8970 section 3); empty without a text.
    fn preview(&self) -> String;
    /// Bytes of a section; `None` if there is no such part. [`crate::server::mime::PartLayout::locate`] finds
    /// them.
    fn section(&self, path: &[u32], range: PartRange) -> Option<Cow<'_, [u8]>>;
    /// The range of those octets, for a host that sends them itself and need not load them. The range is returned
    /// by [`super::super::session::Session::take_span`]. On `None`, [`MessageSource::section`] is called.
    fn section_span(&self, _path: &[u32], _range: PartRange) -> Option<Range<u64>> {
        None
    }
    /// A part without its transfer encoding; the whole message for an empty path. May be called several times.
    fn binary(&self, path: &[u32]) -> Binary<'_>;
}

/// Whether an item names a part whose transfer encoding is unknown.
pub(in crate::server) fn is_undecodable(items: &[FetchItem], message: &dyn MessageSource) -> bool {
    let is_unknown = |path| matches!(message.binary(path), Binary::UnknownEncoding);
    items.iter().filter_map(FetchItem::decoded_part).any(is_unknown)
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

/// The parts of a FETCH response that reports a change.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct Changed<'a> {
    pub(in crate::server) number: u32,
    pub(in crate::server) uid: u32,
    /// The flags and whether the message is `\\Recent`; `None` if the client knows them.
    pub(in crate::server) flags: Option<(&'a Flags, bool)>,
    /// The modification sequence, once CONDSTORE is enabled.
    pub(in crate::server) modseq: Option<u64>,
}

/// Writes `* n FETCH (UID u FLAGS (...) MODSEQ (m))` with its line end.
pub(in crate::server) fn write_change(writer: &mut Writer, change: Changed<'_>) {
    writer.raw("* ").number(u64::from(change.number)).raw(" FETCH (UID ").number(u64::from(change.uid));
    if let Some((flags, is_recent)) = change.flags {
        writer.raw(" ");
        flags_item(writer, flags, is_recent);
    }
    if let Some(modseq) = change.modseq {
        writer.raw(" ");
        modseq_item(writer, modseq);
    }
    writer.raw(")").crlf();
}

fn modseq_item(writer: &mut Writer, modseq: u64) {
    writer.raw("MODSEQ (").number(modseq).raw(")");
}

fn flags_item(writer: &mut Writer, flags: &Flags, is_recent: bool) {
    writer.raw("FLAGS ").list(flags.words().chain(is_recent.then_some("\\Recent")), |writer, word| {
        writer.raw(word);
    });
}

fn write_item(writer: &mut Writer, item: &FetchItem, message: &dyn MessageSource, is_recent: bool) {
    match item {
        FetchItem::Flags => flags_item(writer, message.flags(), is_recent),
        FetchItem::Modseq => modseq_item(writer, message.modseq()),
        FetchItem::Uid => {
            writer.raw("UID ").number(u64::from(message.uid()));
        }
        FetchItem::InternalDate => {
            writer.raw("INTERNALDATE ").string(format_date_time(message.internal_date()).as_bytes());
        }
        FetchItem::SaveDate => {
            writer.raw("SAVEDATE ").string(format_date_time(message.save_date()).as_bytes());
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
        FetchItem::EmailId => {
            writer.raw("EMAILID (").raw(&message.email_id().to_string()).raw(")");
        }
        // Threads have no identifiers here, so the answer is NIL (RFC 8474 section 5.2).
        FetchItem::ThreadId => {
            writer.raw("THREADID NIL");
        }
        FetchItem::Preview => {
            // Controls could not be sent as they are.
            let preview: String = message.preview().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            writer.raw("PREVIEW ").string(preview.as_bytes());
        }
        FetchItem::Section(item) => section(writer, item, message),
        FetchItem::Binary(item) => binary(writer, item, message),
        FetchItem::BinarySize(path) => {
            let length = match message.binary(path) {
                Binary::Missing | Binary::UnknownEncoding => 0,
                Binary::Octets(octets) => octets.len() as u64,
                Binary::Span { length, .. } => length,
            };
            writer.raw("BINARY.SIZE");
            Section { path: path.clone(), text: SectionText::All }.write(writer);
            writer.raw(" ").number(length);
        }
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

fn binary(writer: &mut Writer, item: &BinaryItem, message: &dyn MessageSource) {
    let BinaryItem { path, partial, .. } = item;
    writer.raw("BINARY");
    Section { path: path.clone(), text: SectionText::All }.write(writer);
    if let Some(Partial { origin, .. }) = partial {
        writer.raw("<").number(u64::from(*origin)).raw(">");
    }
    writer.raw(" ");
    match message.binary(path) {
        // For an unknown encoding, the whole command fails (RFC 3516 section 4.2).
        Binary::Missing | Binary::UnknownEncoding => writer.raw("NIL"),
        Binary::Octets(octets) => writer.decoded(partial.map_or(&*octets, |partial| partial.slice(&octets))),
        Binary::Span { length, has_nul } => {
            let range = partial.map_or(0..length, |partial| partial.narrow(0..length));
            writer.decoded_span(path, range, has_nul)
        }
    };
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
