//! The stored structure of a message, so that it is parsed only once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::ops::Range;

use mailapi_model::{Blob, Timestamp};

use super::charset;
use super::fields::{self, Field};
use super::limits::Limits;
use super::recipient::recipient_of;
use super::selection::{self, BodyRole};
use super::source::{Slice, Source, Window};
use super::structure::{self, Part};
use super::transfer::{self, TransferDecoder, TransferEncoding};
use crate::{AttachmentInfo, Correspondent, FullMessage, MessageSummary};

/// The structure of a parsed message: the fields that lists show, and the position of its bodies and
/// attachments.
///
/// List fields are truncated to the listed lengths of [`Limits`], so that no header makes a list long.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessageStructure {
    /// The Message-ID in angle brackets; empty if missing.
    pub message_id: String,
    /// The first author; both parts empty if missing.
    pub from: Correspondent,
    /// The To recipients.
    pub to: Vec<Correspondent>,
    /// The Cc recipients.
    pub cc: Vec<Correspondent>,
    /// The decoded subject, on one line.
    pub subject: String,
    /// The Date field; `None` if missing or unreadable.
    pub date: Option<Timestamp>,
    /// Length of the header block in bytes, including the empty line.
    pub header_len: u64,
    /// The parts of the bodies, in message order.
    pub bodies: Vec<BodyPart>,
    /// Every other leaf, in message order.
    pub attachments: Vec<AttachmentPart>,
}

/// The position of a part's content in the received message, and its encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartSpan {
    /// Offset of its first byte from the start of the message.
    pub offset: u64,
    /// Its encoded length in bytes.
    pub length: u64,
    /// Its transfer encoding.
    pub encoding: TransferEncoding,
}

impl PartSpan {
    fn new(span: &Range<usize>, encoding: TransferEncoding) -> Self {
        Self { offset: span.start as u64, length: span.len() as u64, encoding }
    }

    /// Returns the encoded bytes of the part; empty if the span exceeds the message.
    #[must_use]
    pub fn of<'a>(&self, raw: &'a [u8]) -> &'a [u8] {
        let end = self.offset.checked_add(self.length).and_then(|end| usize::try_from(end).ok());
        let start = usize::try_from(self.offset).ok();
        start.zip(end).and_then(|(start, end)| raw.get(start..end)).unwrap_or_default()
    }

    /// Like [`PartSpan::of`], for a message that may not be in memory. What exceeds the message is left out.
    #[must_use]
    pub fn within(&self, message: &Blob) -> Blob {
        let start = usize::try_from(self.offset).unwrap_or(usize::MAX);
        message.slice(start..start.saturating_add(usize::try_from(self.length).unwrap_or(usize::MAX)))
    }

    /// Returns a decoder for the part.
    #[must_use]
    pub fn decoder(&self) -> TransferDecoder {
        TransferDecoder::new(self.encoding)
    }
}

/// A part of the bodies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyPart {
    /// Its position.
    pub span: PartSpan,
    /// Its charset, if named.
    pub charset: Option<String>,
    /// Where people see it.
    pub role: BodyRole,
}

impl BodyPart {
    /// Decodes the part from its encoded bytes ([`PartSpan::of`]). Line ends and `format=flowed` (RFC 3676)
    /// stay as sent.
    #[must_use]
    pub fn decode(&self, encoded: &[u8]) -> String {
        charset::decode_part(self.charset.as_deref(), self.role.is_html, &transfer::decode(self.span.encoding, encoded))
    }
}

/// An attachment of the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachmentPart {
    /// Its description. The size is exactly that of the [`TransferDecoder`]'s output.
    pub info: AttachmentInfo,
    /// Its position.
    pub span: PartSpan,
}

impl MessageStructure {
    /// Parses a message with the default [`Limits`]. Every byte sequence is a message.
    #[must_use]
    pub fn of(raw: &[u8]) -> Self {
        Self::with_limits(raw, &Limits::default())
    }

    /// Parses a message.
    #[must_use]
    pub fn with_limits(raw: &[u8], limits: &Limits) -> Self {
        Self::uncut_with_limits(raw, limits).listed(limits)
    }

    /// Parses a message without truncating list fields, with the default [`Limits`]. For opening one message.
    #[must_use]
    pub fn uncut(raw: &[u8]) -> Self {
        Self::uncut_with_limits(raw, &Limits::default())
    }

    fn uncut_with_limits(raw: &[u8], limits: &Limits) -> Self {
        let Ok(structure) = Self::read(&mut Slice::new(raw, limits), limits);
        structure
    }

    /// Like [`MessageStructure::of`], for a message that may not be in memory; reads it piece by piece. Blocks.
    ///
    /// # Errors
    /// When the message cannot be read.
    pub fn of_bytes(bytes: &Blob) -> io::Result<Self> {
        Self::in_pieces(bytes, Window::PIECE, &Limits::default())
    }

    fn in_pieces(bytes: &Blob, piece_len: usize, limits: &Limits) -> io::Result<Self> {
        match bytes.in_memory() {
            Some(raw) => Ok(Self::with_limits(raw, limits)),
            None => Ok(Self::read(&mut Window::new(bytes, piece_len, limits), limits)?.listed(limits)),
        }
    }

    fn read<S: Source>(source: &mut S, limits: &Limits) -> Result<Self, S::Error> {
        let parts = structure::read_parts(source, limits)?;
        let header_len = parts.first().map_or(0, |message| message.body.start);
        let header = source.get(0..header_len.min(limits.max_header_bytes))?;
        let mut structure = Self { header_len: header_len as u64, ..Self::of_header(&header, limits) };
        let chosen = selection::choose(&parts, limits);
        structure.bodies = chosen.bodies.into_iter().map(|(at, role)| body(&parts[at], role)).collect();
        let numbered = chosen.attachments.into_iter().enumerate();
        let read = numbered.map(|(index, at)| attachment(source, &parts[at], index, limits));
        structure.attachments = read.collect::<Result<_, _>>()?;
        Ok(structure)
    }

    /// Returns the position of the header block, up to the limit for parsing fields.
    #[must_use]
    pub fn header(&self) -> PartSpan {
        let length = self.header_len.min(Limits::default().max_header_bytes as u64);
        PartSpan { offset: 0, length, encoding: TransferEncoding::Identity }
    }

    /// Parses a header block without truncation; the result has no bodies and no attachments. For backends
    /// whose mail server parses the parts ([`super::DescribedMessage`]).
    #[must_use]
    pub fn of_header_block(block: &[u8]) -> Self {
        Self::of_header(block, &Limits::default())
    }

    fn of_header(block: &[u8], limits: &Limits) -> Self {
        let fields = fields::fields(block, limits.max_fields);
        let first = |name: &str| value(&fields, name);
        // A message has one field of each name (RFC 5322 section 3.6). If it has more, each recipient shows.
        let people = |name: &str| {
            let named = fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
            named.flat_map(|field| fields::correspondents(&field.value, limits.max_address_bytes)).collect::<Vec<_>>()
        };
        Self {
            message_id: first("Message-ID")
                .and_then(fields::identifier)
                .map(|id| ["<", &id, ">"].concat())
                .unwrap_or_default(),
            from: people("From").into_iter().next().unwrap_or_default(),
            to: people("To"),
            cc: people("Cc"),
            subject: first("Subject").map(fields::text_line).unwrap_or_default(),
            date: first("Date").and_then(|value| fields::moment(value, limits.max_parameter_bytes)),
            header_len: block.len() as u64,
            ..Self::default()
        }
    }

    /// Truncates list fields.
    fn listed(mut self, limits: &Limits) -> Self {
        truncate(&mut self.message_id, limits.max_listed_identifier_bytes);
        if let Some((end, _)) = self.subject.char_indices().nth(limits.max_listed_subject_characters) {
            self.subject.truncate(end);
        }
        self.to.truncate(limits.max_listed_correspondents);
        self.cc.truncate(limits.max_listed_correspondents);
        for person in std::iter::once(&mut self.from).chain(&mut self.to).chain(&mut self.cc) {
            truncate(&mut person.name, limits.max_listed_name_bytes);
            truncate(&mut person.email, limits.max_listed_name_bytes);
        }
        self
    }

    /// Returns the summary for lists, without the recipient ([`super::recipient_of`]). `arrived` replaces a missing date.
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
            recipient: None,
        }
    }

    /// Like [`MessageStructure::summary`], without copying.
    #[must_use]
    pub fn into_summary(self, uid: u32, size: u64, flags: Vec<String>, arrived: Timestamp) -> MessageSummary {
        let Self { message_id, from, to, subject, date, attachments, .. } = self;
        let (date, has_attachments) = (date.unwrap_or(arrived), !attachments.is_empty());
        MessageSummary { uid, message_id, from, to, subject, date, size, flags, has_attachments, recipient: None }
    }

    /// Returns the full message. Requires an untruncated structure ([`MessageStructure::uncut`]) and all bytes of the
    /// message.
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
        let Ok((text, html)) = self.decode_bodies(|span| Ok::<_, Infallible>(span.of(raw)));
        let cc = std::mem::take(&mut self.cc);
        let attachments = self.attachments.iter().map(|attachment| attachment.info.clone()).collect();
        let summary = MessageSummary {
            recipient: recipient_of(header).map(|recipient| recipient.as_str().to_owned()),
            ..self.into_summary(uid, size, flags, arrived)
        };
        FullMessage { summary, cc, headers: headers(header), text, html, attachments }
    }

    /// Returns the bodies for readers of plain text and of HTML. `bytes` reads encoded pieces.
    ///
    /// # Errors
    /// The errors of `bytes`.
    pub fn decode_bodies<T: AsRef<[u8]>, E>(
        &self,
        mut bytes: impl FnMut(PartSpan) -> Result<T, E>,
    ) -> Result<(Option<String>, Option<String>), E> {
        let decoded = |body: &BodyPart| Ok((body.role, body.decode(bytes(body.span)?.as_ref())));
        Ok(selection::joined(self.bodies.iter().map(decoded).collect::<Result<_, E>>()?))
    }

    /// Returns the full message, from its summary ([`MessageStructure::summary`]), the bytes of its header block
    /// ([`MessageStructure::header`]), and the encoded bytes of each part of its bodies ([`PartSpan::of`]).
    ///
    /// A store may prepend its own fields to the header block. Truncated list fields are parsed again from it.
    #[must_use]
    pub fn full_message<T: AsRef<[u8]>>(&self, summary: MessageSummary, header: &[u8], bodies: &[T]) -> FullMessage {
        let mut bodies = bodies.iter();
        let Ok((text, html)) =
            self.decode_bodies(|_| Ok::<_, Infallible>(bodies.next().map(AsRef::as_ref).unwrap_or_default()));
        // Few messages are truncated, so the header is rarely parsed again.
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
            text,
            html,
            attachments: self.attachments.iter().map(|attachment| attachment.info.clone()).collect(),
        }
    }

    /// Returns whether any list field may have been truncated.
    fn may_be_cut(&self, limits: &Limits) -> bool {
        // Truncation at a character boundary may drop up to three more bytes.
        let reaches = |text: &str, max_bytes: usize| text.len().saturating_add(3) >= max_bytes;
        let mut people = std::iter::once(&self.from).chain(&self.to).chain(&self.cc);
        reaches(&self.message_id, limits.max_listed_identifier_bytes)
            || self.subject.chars().count() >= limits.max_listed_subject_characters
            || self.to.len().max(self.cc.len()) >= limits.max_listed_correspondents
            || people
                .any(|person| [&person.name, &person.email].iter().any(|t| reaches(t, limits.max_listed_name_bytes)))
    }
}

/// Returns the header block of a message including the empty line; everything if there is no empty line.
#[must_use]
pub fn header_block(message: &[u8]) -> &[u8] {
    let fields = fields::header_lines(message).map(<[u8]>::len).sum();
    let empty_line = message[fields..].split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    &message[..fields + empty_line.len()]
}

/// Returns name and decoded value of each header field, up to [`Limits::max_fields`], in the order in which
/// the names first occur.
///
/// Values of one name, ignoring case, are joined by a line feed. All other control characters but the tab are
/// replaced.
#[must_use]
pub fn headers(block: &[u8]) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = Vec::new();
    let mut places = HashMap::new();
    for field in fields::fields(block, Limits::default().max_fields) {
        let value = without_controls(fields::decoded(&field.value));
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

/// Returns the position of a header name, ignoring case. Few headers are searched one by one; more are
/// indexed, so that reading takes linear time.
fn place(headers: &[(String, String)], places: &mut HashMap<String, usize>, name: &str) -> Option<usize> {
    const FEW: usize = 32;
    if headers.len() <= FEW {
        return headers.iter().position(|(known, _)| known.eq_ignore_ascii_case(name));
    }
    // Index the headers added since the last call.
    for (place, (known, _)) in headers.iter().enumerate().skip(places.len()) {
        places.insert(known.to_ascii_lowercase(), place);
    }
    places.get(&name.to_ascii_lowercase()).copied()
}

fn without_controls(text: Cow<'_, str>) -> String {
    // Almost all values are printable ASCII. Checking bytes without an early exit is faster than checking
    // characters.
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\t');
    if text.bytes().fold(true, |so_far, byte| so_far & is_plain(byte)) {
        return text.into_owned();
    }
    let is_unwanted = |c: char| c.is_control() && c != '\t';
    if text.contains(is_unwanted) { text.replace(is_unwanted, " ") } else { text.into_owned() }
}

fn truncate(text: &mut String, max_bytes: usize) {
    text.truncate(text.floor_char_boundary(max_bytes));
}

/// Returns all authors in a header block.
pub(super) fn authors(block: &[u8]) -> Vec<Correspondent> {
    let limits = Limits::default();
    let fields = fields::fields(block, limits.max_fields);
    let from = value(&fields, "From").map(|value| fields::correspondents(value, limits.max_address_bytes));
    from.unwrap_or_default()
}

fn value<'f>(fields: &'f [Field<'_>], name: &str) -> Option<&'f [u8]> {
    fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| &*field.value)
}

fn body(part: &Part, role: BodyRole) -> BodyPart {
    BodyPart {
        span: PartSpan::new(&part.body, part.encoding),
        charset: part.content_type.parameter("charset").map(ToOwned::to_owned),
        role,
    }
}

fn attachment<S: Source>(
    source: &mut S,
    part: &Part,
    index: usize,
    limits: &Limits,
) -> Result<AttachmentPart, S::Error> {
    let size = transfer::decoded_size(part.encoding, source, part.body.clone())?;
    // A forwarded message is named by its subject, which needs its content.
    let looked_at = if selection::is_message(part) { limits.max_forwarded_header_bytes } else { 0 };
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
    // The header ends at the first empty line, with either line end.
    let end = message.windows(2).position(|pair| pair == b"\n\n").unwrap_or(message.len());
    let end = message.windows(4).position(|four| four == b"\r\n\r\n").map_or(end, |at| at.min(end));
    value(&fields::fields(&message[..end], limits.max_fields), "Subject").map(fields::text_line).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes outside memory, read in pieces.
    struct Elsewhere(Vec<u8>, usize);

    impl mailapi_model::BlobSource for Elsewhere {
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
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            (piece_len, read_len) in (1_usize..70, 1_usize..70),
            (max_line_bytes, max_header_bytes) in prop_oneof![Just((65_536, 65_536)), (1_usize..60, 1_usize..90)],
        ) {
            let mut raw = lines.join("\r\n").into_bytes();
            raw.extend(bytes);
            let limits = Limits { max_line_bytes, max_header_bytes, ..Limits::default() };
            let expected = MessageStructure::with_limits(&raw, &limits);
            let elsewhere = Blob::elsewhere(std::sync::Arc::new(Elsewhere(raw.clone(), read_len)));
            prop_assert_eq!(&MessageStructure::in_pieces(&elsewhere, piece_len, &limits).unwrap(), &expected);
            let halves = Blob::joined([elsewhere.slice(0..raw.len() / 2), Blob::from(raw[raw.len() / 2..].to_vec())]);
            prop_assert_eq!(&MessageStructure::in_pieces(&halves, piece_len, &limits).unwrap(), &expected);
        }
    }
}
