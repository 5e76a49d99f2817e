//! Selects bodies and attachments from a mail server's description of the parts (BODYSTRUCTURE, RFC 3501
//! section 7.4.2). The selection equals that of [`super::MessageStructure`].
//!
//! A description contains the header fields of each part. They are written as a header again, so that one
//! parser interprets both.

use super::charset;
use super::fields;
use super::limits::Limits;
use super::plain;
use super::selection::{self, BodyRole};
use super::structure::{self, Part};
use super::transfer::{self, TransferEncoding};
use crate::AttachmentInfo;

/// A parameter's name, such as `filename*`, and its raw value.
pub type DescribedParameter = (String, Vec<u8>);

/// A part as described by a mail server. Names are in lower case; values are raw bytes of the header.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DescribedPart {
    /// Such as `text`.
    pub media_type: String,
    /// Such as `plain`; may be empty.
    pub subtype: String,
    /// Content-Type parameters. Continued ones (RFC 2231 section 3) may be joined; extended ones keep their
    /// asterisk.
    pub parameters: Vec<DescribedParameter>,
    /// Content-Disposition and its parameters.
    pub disposition: Option<(String, Vec<DescribedParameter>)>,
    /// Content-ID.
    pub content_id: Option<Vec<u8>>,
    /// Content-Transfer-Encoding.
    pub encoding: String,
    /// Size of the encoded body in bytes.
    pub bytes: u64,
    /// Whether it is a container of the parts that follow it.
    pub has_parts: bool,
    /// Number of containers that it is in.
    pub level: usize,
    /// The raw Subject of the message that it forwards.
    pub forwarded_subject: Option<Vec<u8>>,
}

impl DescribedPart {
    /// Returns whether this part, if it is the only one, is certainly just a body, as in most messages. If
    /// true, [`DescribedMessage::of`] finds no attachment; if false, it may find one.
    #[must_use]
    pub fn is_certainly_body(&self) -> bool {
        let is_text = self.media_type == "text" && matches!(self.subtype.as_str(), "plain" | "html");
        is_text && !self.has_parts && self.disposition.is_none() && plain::is_plain_part(self, &Limits::default())
    }
}

/// The roles of the described parts: bodies and attachments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DescribedMessage {
    /// The parts of the bodies, in message order.
    pub bodies: Vec<DescribedBody>,
    /// Every other leaf, in message order.
    pub attachments: Vec<DescribedAttachment>,
}

/// A part of the bodies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedBody {
    /// Its index among the described parts.
    pub part: usize,
    /// Its transfer encoding.
    pub encoding: TransferEncoding,
    /// Its charset, if named.
    pub charset: Option<String>,
    /// Where people see it.
    pub role: BodyRole,
}

impl DescribedBody {
    /// Decodes the part from its encoded bytes.
    #[must_use]
    pub fn decode(&self, encoded: &[u8]) -> String {
        charset::decode_part(self.charset.as_deref(), self.role.is_html, &transfer::decode(self.encoding, encoded))
    }
}

/// An attachment of the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedAttachment {
    /// Its index among the described parts.
    pub part: usize,
    /// Its transfer encoding.
    pub encoding: TransferEncoding,
    /// Its description. The size is that of the encoded content, so it is exact only for
    /// [`TransferEncoding::Identity`]: the server reports no other.
    pub info: AttachmentInfo,
}

impl DescribedMessage {
    /// Selects among all parts of a message, in the order in which they begin; the first is the message
    /// itself.
    #[must_use]
    pub fn of(described: Vec<DescribedPart>) -> Self {
        let limits = Limits::default();
        let (parts, contents): (Vec<Part>, Vec<Content>) =
            described.into_iter().map(|part| read(part, &limits)).unzip();
        let chosen = selection::choose(&parts, &limits);
        let body = |(at, role): (usize, BodyRole)| DescribedBody {
            part: at,
            encoding: parts[at].encoding,
            charset: parts[at].content_type.parameter("charset").map(ToOwned::to_owned),
            role,
        };
        let attachment = |(index, at): (usize, usize)| attachment(&contents[at], &parts[at], index, at, &limits);
        Self {
            bodies: chosen.bodies.into_iter().map(body).collect(),
            attachments: chosen.attachments.into_iter().enumerate().map(attachment).collect(),
        }
    }

    /// Returns the bodies for readers of plain text and of HTML; `bytes` returns the encoded bytes of a part.
    pub fn decode_bodies<'a>(&self, bytes: impl Fn(&DescribedBody) -> &'a [u8]) -> (Option<String>, Option<String>) {
        let decoded = |body: &DescribedBody| (body.role, body.decode(bytes(body)));
        selection::joined(self.bodies.iter().map(decoded).collect())
    }
}

/// The described properties of a part's content.
struct Content {
    bytes: u64,
    forwarded_subject: Option<Vec<u8>>,
}

fn attachment(content: &Content, part: &Part, index: usize, at: usize, limits: &Limits) -> DescribedAttachment {
    let subject = || content.forwarded_subject.as_deref().map(fields::text_line).unwrap_or_default();
    let info = AttachmentInfo {
        index: u32::try_from(index).unwrap_or(u32::MAX),
        filename: selection::name(part, index, limits, subject),
        content_type: part.media_type.clone(),
        type_parameters: selection::type_parameters(part),
        size: content.bytes,
        content_id: part.content_id.clone(),
    };
    DescribedAttachment { part: at, encoding: part.encoding, info }
}

fn read(mut described: DescribedPart, limits: &Limits) -> (Part, Content) {
    let content = Content { bytes: described.bytes, forwarded_subject: described.forwarded_subject.take() };
    let (has_parts, level) = (described.has_parts, described.level);
    let is_plain = plain::is_plain_part(&described, limits);
    // Most parts need no parser, so the header is not written and parsed for them.
    let mut part = if is_plain { plain::part(described) } else { from_header(&described, limits) };
    (part.has_parts, part.level) = (has_parts, level);
    part.is_blank = content.bytes <= structure::BLANK as u64;
    part.end();
    (part, content)
}

fn from_header(described: &DescribedPart, limits: &Limits) -> Part {
    structure::read_header(&header(described), "text/plain", limits)
}

/// Writes a header that matches the description.
fn header(part: &DescribedPart) -> Vec<u8> {
    let mut block = Vec::new();
    let slash = if part.subtype.is_empty() { "" } else { "/" };
    let media_type = format!("{}{slash}{}", part.media_type, part.subtype);
    if !media_type.is_empty() {
        field(&mut block, "Content-Type", media_type.as_bytes(), &part.parameters);
    }
    if let Some((kind, parameters)) = &part.disposition {
        field(&mut block, "Content-Disposition", kind.as_bytes(), parameters);
    }
    if let Some(id) = &part.content_id {
        field(&mut block, "Content-ID", id, &[]);
    }
    field(&mut block, "Content-Transfer-Encoding", part.encoding.as_bytes(), &[]);
    block
}

fn field(block: &mut Vec<u8>, name: &str, value: &[u8], parameters: &[(String, Vec<u8>)]) {
    block.extend(format!("{name}: ").bytes());
    block.extend(value.iter().map(on_one_line));
    for (name, value) in parameters {
        block.extend_from_slice(b"; ");
        block.extend(name.bytes().filter(|&byte| byte.is_ascii_graphic() && !b"=;\"".contains(&byte)));
        block.push(b'=');
        if name.ends_with('*') { extended(block, value) } else { quoted(block, value) }
    }
    block.extend_from_slice(b"\r\n");
}

fn on_one_line(byte: &u8) -> u8 {
    if matches!(byte, b'\r' | b'\n' | 0) { b' ' } else { *byte }
}

fn quoted(block: &mut Vec<u8>, value: &[u8]) {
    block.push(b'"');
    for byte in value.iter().map(on_one_line) {
        if matches!(byte, b'"' | b'\\') {
            block.push(b'\\');
        }
        block.push(byte);
    }
    block.push(b'"');
}

/// Writes an extended value (RFC 2231 section 4). A server may have joined encoded and unencoded sections, so
/// the value is encoded again.
fn extended(block: &mut Vec<u8>, value: &[u8]) {
    for &byte in value {
        let is_plain = byte.is_ascii_alphanumeric() || b"!#$&+-.^_`{|}~%'".contains(&byte);
        if is_plain { block.push(byte) } else { block.extend(format!("%{byte:02X}").bytes()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn leaf(media_type: &str, subtype: &str) -> DescribedPart {
        DescribedPart { media_type: media_type.into(), subtype: subtype.into(), bytes: 9, ..DescribedPart::default() }
    }

    fn named(name: &str, value: &[u8]) -> Vec<(String, Vec<u8>)> {
        vec![(name.to_owned(), value.to_vec())]
    }

    fn name_of(part: DescribedPart) -> String {
        let holder = DescribedPart { has_parts: true, ..leaf("multipart", "mixed") };
        DescribedMessage::of(vec![holder, DescribedPart { level: 1, ..part }]).attachments.remove(0).info.filename
    }

    #[test]
    fn no_value_writes_a_field_of_its_own() {
        let part = DescribedPart {
            parameters: named("name", b"a\r\nContent-Disposition: attachment; filename=\"evil\\"),
            content_id: Some(b"<x>\r\nContent-Type: text/html".to_vec()),
            encoding: "7bit\r\nContent-Disposition: inline; filename=z".to_owned(),
            ..leaf("image", "png\r\nX: y")
        };
        assert_eq!(header(&part).iter().filter(|&&byte| byte == b'\n').count(), 3);
        assert_eq!(name_of(part), "a  Content-Disposition: attachment; filename=\"evil\\");
    }

    #[test]
    fn names_are_decoded_in_every_form() {
        for (key, value, expected) in [
            ("filename", &b"=?utf-8?q?n=C3=A9?=.bin"[..], "né.bin"),
            ("filename", b"J\xfcrgen \"x\".pdf", "Jürgen \"x\".pdf"),
            ("filename*", b"utf-8''na%C3%AFve plan.pdf", "naïve plan.pdf"),
            ("filename*0*", b"utf-8''na%C3%AF", "naï"),
            ("filename*", b"iso-8859-1''it's%20Gr%FC%DFe (1)", "it's Grüße (1)"),
            ("filename*", b"utf-8''%E2%82%AC;x", "€;x"),
        ] {
            let disposition = Some(("attachment".to_owned(), named(key, value)));
            assert_eq!(name_of(DescribedPart { disposition, ..leaf("a", "b") }), expected, "{key}");
        }
        let mut both = named("filename", b"for old readers.txt");
        both.extend(named("filename*", b"utf-8''n%C3%A9.txt"));
        let disposition = Some(("attachment".to_owned(), both));
        assert_eq!(name_of(DescribedPart { disposition, ..leaf("a", "b") }), "né.txt");
        let forwarded =
            DescribedPart { forwarded_subject: Some(b"=?utf-8?q?caf=C3=A9?=".to_vec()), ..leaf("message", "rfc822") };
        assert_eq!(name_of(forwarded), "café.eml");
    }

    #[test]
    fn an_invalid_type_is_bytes_and_an_empty_multipart_is_text() {
        let holder = || DescribedPart { has_parts: true, ..leaf("multipart", "mixed") };
        assert_eq!(
            DescribedMessage::of(vec![holder(), DescribedPart { level: 1, ..leaf("foo", "") }]).attachments[0]
                .info
                .content_type,
            "application/octet-stream"
        );
        assert_eq!(DescribedMessage::of(vec![leaf("multipart", "mixed")]).bodies[0].part, 0);
        assert_eq!(DescribedMessage::of(Vec::new()), DescribedMessage::default());
    }

    proptest! {
        #[test]
        fn a_plain_part_says_what_its_header_says(
            words in prop::collection::vec("[a-zA-Z0-9./_+=-]{0,5}", 6), value in "[ -~]{0,9}", id in "[ -~]{0,6}",
            kind in prop::option::of("plain|html"), is_placed in any::<bool>(),
        ) {
            let part = DescribedPart {
                media_type: if kind.is_some() { "text".to_owned() } else { words[0].to_lowercase() },
                subtype: kind.unwrap_or_else(|| words[1].clone()),
                parameters: named(&words[2], value.as_bytes()),
                disposition: is_placed.then(|| (words[3].clone(), named(&words[4], words[5].as_bytes()))),
                content_id: Some(id.into_bytes()),
                encoding: words[5].clone(),
                ..DescribedPart::default()
            };
            let limits = Limits::default();
            if part.is_certainly_body() {
                prop_assert_eq!(DescribedMessage::of(vec![part.clone()]).attachments, []);
            }
            if plain::is_plain_part(&part, &limits) {
                prop_assert_eq!(from_header(&part, &limits), plain::part(part));
            }
        }

        #[test]
        fn any_description_is_read(
            words in prop::collection::vec("\\PC{0,12}", 4), value in prop::collection::vec(any::<u8>(), 0..40), holds in any::<bool>(),
        ) {
            let part = DescribedPart {
                media_type: words[0].clone(),
                subtype: words[1].clone(),
                parameters: named(&words[2], &value),
                disposition: Some((words[3].clone(), named("filename*", &value))),
                content_id: Some(value.clone()),
                encoding: words[2].clone(),
                bytes: 1,
                has_parts: holds,
                level: usize::from(holds),
                forwarded_subject: Some(value),
            };
            let outline = DescribedMessage::of(vec![part.clone(), part]);
            prop_assert_eq!(outline.attachments.len() <= 2, true);
        }
    }
}
