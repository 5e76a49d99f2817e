//! What a store keeps of a message, so that it is never taken apart again.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::ops::Range;

use mailapi_model::{Octets, Timestamp};

use super::fields::{self, Field};
use super::limits::Limits;
use super::source::{Slice, Source, Window};
use super::structure::{self, Part};
use super::transfer::{self, TransferDecoder, TransferEncoding};
use super::{charset, selection};
use crate::{AttachmentInfo, Correspondent, FullMessage, MessageSummary};

/// A message taken apart: what a listing shows of it, and where its bodies and attachments stand. What is for the
/// listing is cut at the listed lengths of [`Limits`], so that no header makes a listing long.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessageStructure {
    /// The Message-ID header in angle brackets; empty when there is none.
    pub message_id: String,
    /// The first author; both parts empty when there is none.
    pub from: Correspondent,
    /// To.
    pub to: Vec<Correspondent>,
    /// Cc.
    pub cc: Vec<Correspondent>,
    /// The subject, decoded, on one line.
    pub subject: String,
    /// The Date header; none when it is missing or unreadable.
    pub date: Option<Timestamp>,
    /// Octets of the header block, up to and including the empty line.
    pub header_len: u64,
    /// The first text/plain part that is no attachment.
    pub text: Option<BodyPart>,
    /// The first text/html part that is no attachment.
    pub html: Option<BodyPart>,
    /// Every other leaf, in the order of the message.
    pub attachments: Vec<AttachmentPart>,
}

/// Where the content of a part stands in the message as it was received, and how it is written there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartSpan {
    /// Its first octet, counted from the start of the message.
    pub offset: u64,
    /// How many octets it takes there, not decoded.
    pub length: u64,
    /// How it is written.
    pub encoding: TransferEncoding,
}

impl PartSpan {
    fn new(span: &Range<usize>, encoding: TransferEncoding) -> Self {
        Self { offset: span.start as u64, length: span.len() as u64, encoding }
    }

    /// The part's octets in the message, not decoded. Empty when the span does not lie within the message.
    #[must_use]
    pub fn of<'a>(&self, raw: &'a [u8]) -> &'a [u8] {
        let end = self.offset.checked_add(self.length).and_then(|end| usize::try_from(end).ok());
        let start = usize::try_from(self.offset).ok();
        start.zip(end).and_then(|(start, end)| raw.get(start..end)).unwrap_or_default()
    }

    /// A decoder for the octets of this part.
    #[must_use]
    pub fn decoder(&self) -> TransferDecoder {
        TransferDecoder::new(self.encoding)
    }
}

/// A body of the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyPart {
    /// Where it stands.
    pub span: PartSpan,
    /// The charset that it names.
    pub charset: Option<String>,
}

impl BodyPart {
    /// The text of the body, from its octets as they stand in the message ([`PartSpan::of`]). Line ends and
    /// `format=flowed` (RFC 3676) are left as they were sent.
    #[must_use]
    pub fn decode(&self, encoded: &[u8]) -> String {
        charset::decode(self.charset.as_deref(), &transfer::decode(self.span.encoding, encoded))
    }
}

/// An attachment of the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachmentPart {
    /// What is told of it; its size is exactly what a [`TransferDecoder`] gives.
    pub info: AttachmentInfo,
    /// Where it stands.
    pub span: PartSpan,
}

impl MessageStructure {
    /// Takes a message apart with the default [`Limits`]. Every sequence of octets is a message.
    #[must_use]
    pub fn of(raw: &[u8]) -> Self {
        Self::with_limits(raw, &Limits::default())
    }

    /// Takes a message apart.
    #[must_use]
    pub fn with_limits(raw: &[u8], limits: &Limits) -> Self {
        Self::uncut_with_limits(raw, limits).listed(limits)
    }

    /// Takes a message apart that is opened rather than listed: nothing is cut. With the default [`Limits`].
    #[must_use]
    pub fn uncut(raw: &[u8]) -> Self {
        Self::uncut_with_limits(raw, &Limits::default())
    }

    fn uncut_with_limits(raw: &[u8], limits: &Limits) -> Self {
        let Ok(structure) = Self::read(&mut Slice::new(raw, limits), limits);
        structure
    }

    /// The same as [`MessageStructure::of`] for a message that may lie elsewhere than in memory, of which no more than a piece is
    /// there at a time. Blocks while it is read.
    ///
    /// # Errors
    /// When the message cannot be read.
    pub fn of_octets(octets: &Octets) -> io::Result<Self> {
        Self::in_pieces(octets, Window::PIECE, &Limits::default())
    }

    fn in_pieces(octets: &Octets, piece_len: usize, limits: &Limits) -> io::Result<Self> {
        match octets.in_memory() {
            Some(raw) => Ok(Self::with_limits(raw, limits)),
            None => Ok(Self::read(&mut Window::new(octets, piece_len, limits), limits)?.listed(limits)),
        }
    }

    fn read<S: Source>(source: &mut S, limits: &Limits) -> Result<Self, S::Error> {
        let parts = structure::read_parts(source, limits)?;
        let header_len = parts.first().map_or(0, |message| message.body.start);
        let header = source.get(0..header_len.min(limits.max_header_octets))?;
        let mut structure = Self { header_len: header_len as u64, ..Self::of_header(&header, limits) };
        let chosen = selection::choose(&parts);
        structure.text = chosen.text.map(|at| body(&parts[at]));
        structure.html = chosen.html.map(|at| body(&parts[at]));
        let numbered = chosen.attachments.into_iter().enumerate();
        let read = numbered.map(|(index, at)| attachment(source, &parts[at], index, limits));
        structure.attachments = read.collect::<Result<_, _>>()?;
        Ok(structure)
    }

    /// Where the header block stands, as much of it as fields are looked for in.
    #[must_use]
    pub fn header(&self) -> PartSpan {
        let length = self.header_len.min(Limits::default().max_header_octets as u64);
        PartSpan { offset: 0, length, encoding: TransferEncoding::Identity }
    }

    /// What the header block alone tells, all of it: no bodies, no attachments. For backends whose mail server takes the parts
    /// apart itself ([`super::Outline`]).
    #[must_use]
    pub fn of_header_block(block: &[u8]) -> Self {
        Self::of_header(block, &Limits::default())
    }

    fn of_header(block: &[u8], limits: &Limits) -> Self {
        let fields = fields::fields(block, limits.max_fields);
        let first = |name: &str| value(&fields, name);
        let people = |name| first(name).map(|value| fields::correspondents(value, limits.max_address_octets));
        Self {
            message_id: first("Message-ID")
                .and_then(fields::identifier)
                .map(|id| ["<", &id, ">"].concat())
                .unwrap_or_default(),
            from: people("From").unwrap_or_default().into_iter().next().unwrap_or_default(),
            to: people("To").unwrap_or_default(),
            cc: people("Cc").unwrap_or_default(),
            subject: first("Subject").map(fields::text_line).unwrap_or_default(),
            date: first("Date").and_then(|value| fields::date(value, limits.max_parameter_octets)),
            header_len: block.len() as u64,
            ..Self::default()
        }
    }

    /// Cut for listings.
    fn listed(mut self, limits: &Limits) -> Self {
        truncate(&mut self.message_id, limits.max_listed_identifier_octets);
        if let Some((end, _)) = self.subject.char_indices().nth(limits.max_listed_subject_characters) {
            self.subject.truncate(end);
        }
        self.to.truncate(limits.max_listed_correspondents);
        self.cc.truncate(limits.max_listed_correspondents);
        for person in std::iter::once(&mut self.from).chain(&mut self.to).chain(&mut self.cc) {
            truncate(&mut person.name, limits.max_listed_name_octets);
            truncate(&mut person.email, limits.max_listed_name_octets);
        }
        self
    }

    /// What a listing shows. `arrived` stands in for a date that is missing.
    #[must_use]
    pub fn summary(&self, uid: u32, size: u64, flags: Vec<String>, arrived: Timestamp) -> MessageSummary {
        MessageSummary {
            uid,
            message_id: self.message_id.clone(),
            from: self.from.clone(),
            to: self.to.clone(),
            subject: self.subject.clone(),
            date: self.date.unwrap_or(arrived),
            size,
            flags,
            has_attachments: !self.attachments.is_empty(),
        }
    }

    /// The same for whoever needs the digest no more.
    #[must_use]
    pub fn into_summary(self, uid: u32, size: u64, flags: Vec<String>, arrived: Timestamp) -> MessageSummary {
        let Self { message_id, from, to, subject, date, attachments, .. } = self;
        let (date, has_attachments) = (date.unwrap_or(arrived), !attachments.is_empty());
        MessageSummary { uid, message_id, from, to, subject, date, size, flags, has_attachments }
    }

    /// The whole message, when the digest was not cut ([`MessageStructure::uncut`]) and all octets of the message are there.
    #[must_use]
    pub fn into_full_message(
        mut self,
        raw: &[u8],
        uid: u32,
        size: u64,
        flags: Vec<String>,
        arrived: Timestamp,
    ) -> FullMessage {
        let header = self.header().of(raw);
        let text_of = |body: &BodyPart| body.decode(body.span.of(raw));
        let (text, html) = (self.text.as_ref().map(text_of), self.html.as_ref().map(text_of));
        let cc = std::mem::take(&mut self.cc);
        let attachments = self.attachments.iter().map(|attachment| attachment.info.clone()).collect();
        let summary = self.into_summary(uid, size, flags, arrived);
        FullMessage { summary, cc, headers: headers(header), text, html, attachments }
    }

    /// The whole message, from what a listing shows of it ([`MessageStructure::summary`]), the octets of its header block
    /// ([`MessageStructure::header`]; a store's own fields may stand in front), and those of its bodies as they stand in the message ([`PartSpan::of`]); a body that the digest does
    /// not name is not looked at. What a listing shows only the beginning of, comes whole from the header block.
    #[must_use]
    pub fn full_message(&self, summary: MessageSummary, header: &[u8], text: &[u8], html: &[u8]) -> FullMessage {
        let (summary, cc) = if self.may_be_cut(&Limits::default()) {
            let Self { message_id, from, to, cc, subject, .. } = Self::of_header_block(header);
            (MessageSummary { message_id, from, to, subject, ..summary }, cc)
        } else {
            (summary, self.cc.clone())
        };
        FullMessage {
            summary,
            cc,
            headers: headers(header),
            text: self.text.as_ref().map(|body| body.decode(text)),
            html: self.html.as_ref().map(|body| body.decode(html)),
            attachments: self.attachments.iter().map(|attachment| attachment.info.clone()).collect(),
        }
    }

    /// Whether something of it reaches up to where it was cut for listings.
    fn may_be_cut(&self, limits: &Limits) -> bool {
        // A cut falls between two characters, so it may leave up to three octets less.
        let reaches = |text: &str, max_octets: usize| text.len().saturating_add(3) >= max_octets;
        let mut people = std::iter::once(&self.from).chain(&self.to).chain(&self.cc);
        reaches(&self.message_id, limits.max_listed_identifier_octets)
            || self.subject.chars().count() >= limits.max_listed_subject_characters
            || self.to.len().max(self.cc.len()) >= limits.max_listed_correspondents
            || people
                .any(|person| [&person.name, &person.email].iter().any(|t| reaches(t, limits.max_listed_name_octets)))
    }
}

/// The header block of a message, with the empty line behind it; all of it when there is no empty line.
#[must_use]
pub fn header_block(message: &[u8]) -> &[u8] {
    let fields = fields::header_lines(message).map(<[u8]>::len).sum();
    let empty_line = message[fields..].split_inclusive(|octet| *octet == b'\n').next().unwrap_or_default();
    &message[..fields + empty_line.len()]
}

/// Name and decoded value of each header of a header block, as many fields of it as [`Limits::max_fields`], in the order
/// in which the names first occur. Values of
/// one name, whatever its case, are joined by a line feed, which like every other control character but the tab stands
/// in no value.
#[must_use]
pub fn headers(block: &[u8]) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = Vec::new();
    let mut places = HashMap::new();
    for field in fields::fields(block, Limits::default().max_fields) {
        let value = without_controls(fields::decoded(field.value));
        match place(&headers, &mut places, field.name).and_then(|place| headers.get_mut(place)) {
            Some((_, joined)) => {
                joined.push('\n');
                joined.push_str(&value);
            }
            None => headers.push((field.name.to_owned(), value)),
        }
    }
    headers
}

/// Where the header of that name, whatever its case, stands among those so far. Among the few that nearly all messages
/// have it is looked for; among more it is looked up, so that a header of any length is read in linear time.
fn place(headers: &[(String, String)], places: &mut HashMap<String, usize>, name: &str) -> Option<usize> {
    const FEW: usize = 32;
    if headers.len() <= FEW {
        return headers.iter().position(|(known, _)| known.eq_ignore_ascii_case(name));
    }
    // Those that came since the last look.
    for (place, (known, _)) in headers.iter().enumerate().skip(places.len()) {
        places.insert(known.to_ascii_lowercase(), place);
    }
    places.get(&name.to_ascii_lowercase()).copied()
}

fn without_controls(text: Cow<'_, str>) -> String {
    // Nearly all values hold nothing but printable ASCII, which is seen without looking at characters one by one.
    let is_plain = |octet: u8| matches!(octet, b' '..=b'~' | b'\t');
    if text.bytes().fold(true, |so_far, octet| so_far & is_plain(octet)) {
        return text.into_owned();
    }
    let is_unwanted = |c: char| c.is_control() && c != '\t';
    if text.contains(is_unwanted) { text.replace(is_unwanted, " ") } else { text.into_owned() }
}

fn truncate(text: &mut String, max_octets: usize) {
    text.truncate(text.floor_char_boundary(max_octets));
}

/// All authors that a header block names.
pub(super) fn authors(block: &[u8]) -> Vec<Correspondent> {
    let limits = Limits::default();
    let fields = fields::fields(block, limits.max_fields);
    let from = value(&fields, "From").map(|value| fields::correspondents(value, limits.max_address_octets));
    from.unwrap_or_default()
}

fn value<'a>(fields: &[Field<'a>], name: &str) -> Option<&'a [u8]> {
    fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
}

fn body(part: &Part) -> BodyPart {
    BodyPart {
        span: PartSpan::new(&part.body, part.encoding),
        charset: part.content_type.parameter("charset").map(ToOwned::to_owned),
    }
}

fn attachment<S: Source>(
    source: &mut S,
    part: &Part,
    index: usize,
    limits: &Limits,
) -> Result<AttachmentPart, S::Error> {
    let size = transfer::decoded_size(part.encoding, source, part.body.clone())?;
    let looked_at = if selection::is_message(part) { limits.max_forwarded_header_octets } else { 0 };
    let beginning = source.get(part.body.start..part.body.end.min(part.body.start + looked_at))?;
    let info = AttachmentInfo {
        index: u32::try_from(index).unwrap_or(u32::MAX),
        filename: selection::name(part, index, limits, || forwarded_subject(&beginning, part.encoding, limits)),
        content_type: part.media_type.clone(),
        type_parameters: selection::type_parameters(part),
        size,
        content_id: part.content_id.clone(),
    };
    Ok(AttachmentPart { info, span: PartSpan::new(&part.body, part.encoding) })
}

fn forwarded_subject(beginning: &[u8], encoding: TransferEncoding, limits: &Limits) -> String {
    let message = transfer::decode(encoding, beginning);
    let end = message.windows(2).position(|pair| pair == b"\n\n").unwrap_or(message.len());
    let end = message.windows(4).position(|four| four == b"\r\n\r\n").map_or(end, |at| at.min(end));
    value(&fields::fields(&message[..end], limits.max_fields), "Subject").map(fields::text_line).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Octets that lie elsewhere, of which some are read at a time.
    struct Elsewhere(Vec<u8>, usize);

    impl mailapi_model::OctetSource for Elsewhere {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<usize> {
            let rest = &self.0[offset.min(self.0.len())..];
            let read = rest.len().min(buffer.len()).min(self.1);
            buffer[..read].copy_from_slice(&rest[..read]);
            Ok(read)
        }
    }

    #[test]
    fn headers_of_one_name_are_joined_however_many_there_are() {
        for others in [1, 31, 32, 33, 100] {
            let mut block: String = (0..others).map(|number| format!("X-{number}: {number}\r\n")).collect();
            block += "Received: a\r\nx-0: again\r\nRECEIVED: b\r\nreceived: c\r\n\r\n";
            let headers = headers(block.as_bytes());
            assert_eq!(headers.len(), others + 1, "{others}");
            assert_eq!(headers[0], ("X-0".to_owned(), "0\nagain".to_owned()));
            assert_eq!(headers[others], ("Received".to_owned(), "a\nb\nc".to_owned()));
        }
    }

    proptest! {
        #[test]
        fn wherever_a_message_is_cut_it_is_taken_apart_as_in_memory(
            lines in prop::collection::vec(prop_oneof![
                Just("Content-Type: multipart/mixed; boundary=a"), Just("Content-Type: multipart/digest; boundary=b"),
                Just("Content-Type: message/rfc822"), Just("Content-Transfer-Encoding: base64"), Just("Subject: =?utf-8?q?=C3=BC?="),
                Just("Content-Disposition: attachment; filename=x.bin"), Just("From: Ann <ann@example.org>"),
                Just("--a"), Just("--b"), Just("--a--"), Just("--b-- \t"), Just(""), Just("aGVsbG8="), Just("a longer line of text"),
            ], 0..60),
            octets in prop::collection::vec(any::<u8>(), 0..60),
            (piece_len, read_len) in (1_usize..70, 1_usize..70),
            (max_line_octets, max_header_octets) in prop_oneof![Just((65_536, 65_536)), (1_usize..60, 1_usize..90)],
        ) {
            let mut raw = lines.join("\r\n").into_bytes();
            raw.extend(octets);
            let limits = Limits { max_line_octets, max_header_octets, ..Limits::default() };
            let expected = MessageStructure::with_limits(&raw, &limits);
            let elsewhere = Octets::elsewhere(std::sync::Arc::new(Elsewhere(raw.clone(), read_len)));
            prop_assert_eq!(&MessageStructure::in_pieces(&elsewhere, piece_len, &limits).unwrap(), &expected);
            let halves = Octets::joined([elsewhere.slice(0..raw.len() / 2), Octets::from(raw[raw.len() / 2..].to_vec())]);
            prop_assert_eq!(&MessageStructure::in_pieces(&halves, piece_len, &limits).unwrap(), &expected);
        }
    }
}
