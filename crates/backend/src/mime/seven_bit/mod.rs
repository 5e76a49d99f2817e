//! Converts messages for servers that take fewer characters than the message has: 8-bit text for a server without 8BITMIME
//! (RFC 6152 section 3), and UTF-8 in the header for one without SMTPUTF8.
//!
//! A reader sees the same message afterwards, but its bytes are others, so signatures over them no longer hold. Parts that
//! their author signed are never converted. A signature of the whole message must be made after the conversion.

mod base64_source;
mod field;

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use mail_builder::encoders::QuotedPrintableEncoder;
use mailapi_model::Blob;
use memchr::memmem;

use self::base64_source::Base64Source;
use self::field::{HeaderChange, rewritten};
use super::header::Header;
use super::limits::Limits;
use super::source::Window;
use super::structure::{self, Part};
use super::transfer::{TransferEncoding, decode};

/// Why a message cannot be converted.
#[derive(Debug, thiserror::Error)]
pub enum ConversionError {
    /// A part that its author signed has 8-bit text or a UTF-8 header. Its signature covers the bytes.
    #[error("a signed part of the message has characters beyond ASCII")]
    Signed,
    /// A header field has an address whose local part is not ASCII.
    #[error("an address in the header has characters beyond ASCII")]
    Address,
    /// A part has a form that allows no encoding (RFC 2045 section 6.4, RFC 2046 section 5.2).
    #[error("a part of the message has characters beyond ASCII, and its form allows no encoding")]
    Form,
    /// The message cannot be read at the moment.
    #[error("the message cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

/// Bytes that are encoded in memory. What comes after them is encoded while it is read.
const IN_MEMORY_BYTES: usize = 1024 * 1024;

/// Bytes of a piece that is searched for characters beyond ASCII.
const PIECE_BYTES: usize = 128 * 1024;

/// Returns the message with an ASCII header. Its body is unchanged. Blocks.
///
/// # Errors
/// [`ConversionError`] if an address has no ASCII form, or the message cannot be read.
pub fn with_ascii_header(message: &Blob) -> Result<Blob, ConversionError> {
    let limits = Limits::default();
    let parts = structure::read_parts(&mut Window::new(message, Window::PIECE, &limits), &limits)?;
    let Some(header) = parts.first().map(|part| part.header.clone()) else { return Ok(message.clone()) };
    if header.len() > limits.max_header_bytes {
        return Err(ConversionError::Form);
    }
    let ascii = rewritten(&header_of(message, &header)?, HeaderChange::None)?;
    Ok(Blob::joined([ascii.into(), message.slice(header.end..message.len())]))
}

/// Returns the message in ASCII: header fields by RFC 2047 and RFC 2231, bodies as quoted-printable or base64. Parts that
/// are ASCII are unchanged. Blocks.
///
/// # Errors
/// [`ConversionError`] if a part may or can not be converted, or the message cannot be read.
pub fn in_seven_bits(message: &Blob) -> Result<Blob, ConversionError> {
    let limits = Limits::default();
    let delimiters = PartDelimiters::within(None);
    Converter { message, limits: &limits, messages: 0, memory_left: IN_MEMORY_BYTES, delimiters }
        .convert()
        .map(|(converted, _)| converted)
}

struct Converter<'a> {
    message: &'a Blob,
    limits: &'a Limits,
    /// Number of messages that it is in.
    messages: usize,
    memory_left: usize,
    /// Those of its own multiparts, and of the multiparts that it is in.
    delimiters: PartDelimiters<'a>,
}

/// New bytes for a range of the message.
type Edit = (Range<usize>, Blob);

impl Converter<'_> {
    /// Returns the converted message, and the memory that is left.
    fn convert(mut self) -> Result<(Blob, usize), ConversionError> {
        let parts = structure::read_parts(&mut Window::new(self.message, Window::PIECE, self.limits), self.limits)?;
        self.delimiters.add(&parts);
        let signed = signed_ranges(&parts);
        let mut edits = Vec::new();
        for part in &parts {
            let is_last_allowed = parts.len() >= self.limits.max_parts;
            self.convert_part(part, is_within(&signed, part.header.start), is_last_allowed, &mut edits)?;
        }
        self.mask_rest(&parts, &signed, &mut edits)?;
        edits.sort_by_key(|(range, _)| (range.start, range.end));
        let (mut pieces, mut at) = (Vec::new(), 0);
        for (range, piece) in edits {
            pieces.push(self.message.slice(at..range.start));
            pieces.push(piece);
            at = range.end;
        }
        pieces.push(self.message.slice(at..self.message.len()));
        Ok((Blob::joined(pieces), self.memory_left))
    }

    fn convert_part(
        &mut self,
        part: &Part,
        is_signed: bool,
        is_cut: bool,
        edits: &mut Vec<Edit>,
    ) -> Result<(), ConversionError> {
        let body = self.message.slice(part.body.clone());
        let is_body_ascii = part.has_parts || is_ascii(&body)?;
        let is_header_ascii = is_ascii(&self.message.slice(part.header.clone()))?;
        if is_signed && !(is_body_ascii && is_header_ascii) {
            return Err(ConversionError::Signed);
        }
        if part.content_type.parameter("boundary").is_some_and(|boundary| !boundary.is_ascii()) {
            return Err(ConversionError::Form);
        }
        if is_signed {
            return Ok(());
        }
        let header = match part.header.len() <= self.limits.max_header_bytes {
            true => header_of(self.message, &part.header)?,
            // Fields beyond the limit are not read.
            false if is_header_ascii && is_body_ascii => return Ok(()),
            false => return Err(ConversionError::Form),
        };
        let mut change = match part.has_parts && !has_no_encoding(&header, &["7bit", ""]) {
            true => HeaderChange::SevenBit,
            false => HeaderChange::None,
        };
        if !is_body_ascii {
            // The last part within the limits has the rest of the message.
            if is_cut {
                return Err(ConversionError::Form);
            }
            let (converted, encoding) = self.convert_body(part, &header, &body)?;
            let charset = missing_charset(part, &body)?;
            change = HeaderChange::Encoded { encoding, charset, is_message: part.header.start == 0 };
            edits.push((part.body.clone(), converted));
        }
        // Without an empty line, the header would go on in the fields that a part of it gets.
        let is_open = part.has_parts && !ends_with_empty_line(&header);
        if !is_header_ascii || is_open || change != HeaderChange::None {
            let rewritten = rewritten(&header, change)?;
            if self.delimiters.begin_a_line_of(&rewritten) {
                return Err(ConversionError::Form);
            }
            edits.push((part.header.clone(), rewritten.into()));
        }
        Ok(())
    }

    /// Returns the encoded body of a part without parts of its own, and the name of its encoding.
    fn convert_body(
        &mut self,
        part: &Part,
        header: &[u8],
        body: &Blob,
    ) -> Result<(Blob, &'static str), ConversionError> {
        let is_text = part.media_type.starts_with("text/");
        match (part.encoding, part.media_type.as_str()) {
            // Only the octets that do not belong there are changed, unless a delimiter would appear.
            // Only the octets that do not belong there are changed, unless a delimiter would appear.
            (encoding @ (TransferEncoding::QuotedPrintable | TransferEncoding::Base64), _) => {
                let bytes = body.to_bytes()?;
                let (ascii, name) = match encoding {
                    TransferEncoding::QuotedPrintable => (escaped(&bytes), "quoted-printable"),
                    _ => (bytes.iter().copied().filter(u8::is_ascii).collect(), "base64"),
                };
                if self.delimiters.begin_a_line_of(&ascii) {
                    return Ok(as_base64(&decode(encoding, &bytes).into()));
                }
                Ok((ascii.into(), name))
            }
            // A message has no encoding of its own: its parts have (RFC 2046 section 5.2.1).
            (TransferEncoding::Identity, "message/rfc822") if self.messages < self.limits.max_messages => {
                let inside = Converter {
                    message: body,
                    limits: self.limits,
                    messages: self.messages + 1,
                    memory_left: self.memory_left,
                    delimiters: PartDelimiters::within(Some(&self.delimiters)),
                };
                let (converted, memory_left) = inside.convert()?;
                self.memory_left = memory_left;
                Ok((converted, "7bit"))
            }
            (TransferEncoding::Identity, "message/rfc822" | "message/partial" | "message/external-body") => {
                Err(ConversionError::Form)
            }
            (TransferEncoding::Identity, _) if !has_no_encoding(header, &IDENTITIES) => Err(ConversionError::Form),
            // A multipart that cannot be read has no encoding (RFC 2045 section 6.4).
            _ if part.content_type.value.starts_with("multipart/") => Err(ConversionError::Form),
            _ if is_text && self.takes_memory(body) => {
                let mut encoded = Vec::with_capacity(body.len() * 2);
                QuotedPrintableEncoder::new().preserve_line_breaks().encode_into(&body.to_bytes()?, &mut encoded);
                // A break within a line of the author, or an encoded character, can complete a delimiter.
                if self.delimiters.begin_a_line_of(&encoded) {
                    return Ok(as_base64(body));
                }
                Ok((encoded.into(), "quoted-printable"))
            }
            _ => Ok(as_base64(body)),
        }
    }

    fn takes_memory(&mut self, body: &Blob) -> bool {
        let left = self.memory_left.checked_sub(body.len());
        self.memory_left = left.unwrap_or(self.memory_left);
        left.is_some()
    }

    /// Replaces characters between the parts, which no reader shows (RFC 2046 section 5.1.1).
    fn mask_rest(&self, parts: &[Part], signed: &[Range<usize>], edits: &mut Vec<Edit>) -> Result<(), ConversionError> {
        let mut covered: Vec<&Range<usize>> = parts.iter().map(|part| &part.header).collect();
        covered.extend(parts.iter().filter(|part| !part.has_parts).map(|part| &part.body));
        covered.sort_by_key(|range| (range.start, range.end));
        let end = self.message.len();
        let mut at = 0;
        for next in covered.into_iter().map(|range| (range.start, range.end)).chain([(end, end)]) {
            let gap = at..next.0.max(at);
            let bytes = self.message.slice(gap.clone());
            if !is_ascii(&bytes)? {
                if is_within(signed, gap.start) {
                    return Err(ConversionError::Signed);
                }
                let mask = *self.delimiters.masks.first().ok_or(ConversionError::Form)?;
                let masked: Vec<u8> = bytes.to_bytes()?.iter().map(|b| if b.is_ascii() { *b } else { mask }).collect();
                edits.push((gap, masked.into()));
            }
            at = at.max(next.1);
        }
        Ok(())
    }
}

/// The lines that separate the parts of a message, and of the messages that it is in, without their ends. No conversion may
/// complete one (RFC 2046 section 5.1.1).
struct PartDelimiters<'a> {
    /// Sorted. None begins with another, so one look-up finds the one that a line begins with.
    own: Vec<Vec<u8>>,
    outer: Option<&'a Self>,
    /// Characters that can replace others: no delimiter has them.
    masks: Vec<u8>,
}

impl<'a> PartDelimiters<'a> {
    fn within(outer: Option<&'a Self>) -> Self {
        Self { own: Vec::new(), outer, masks: outer.map_or(b"?*!#~".to_vec(), |outer| outer.masks.clone()) }
    }

    fn add(&mut self, parts: &[Part]) {
        let boundaries = parts.iter().filter_map(|part| part.content_type.parameter("boundary"));
        let delimiters = boundaries.map(|boundary| format!("--{}", boundary.trim_end()).into_bytes());
        for delimiter in delimiters.collect::<BTreeSet<_>>() {
            self.masks.retain(|mask| !delimiter.contains(mask));
            if self.own.last().is_none_or(|shorter| !delimiter.starts_with(shorter)) {
                self.own.push(delimiter);
            }
        }
    }

    /// Returns whether a line begins with one of them.
    fn begin_a_line_of(&self, content: &[u8]) -> bool {
        let later = memmem::find_iter(content, b"\n--").map(|at| at + 1);
        std::iter::once(0).chain(later).any(|at| self.begin(&content[at..]))
    }

    fn begin(&self, line: &[u8]) -> bool {
        let next = self.own.partition_point(|delimiter| delimiter.as_slice() <= line);
        let is_own = next.checked_sub(1).is_some_and(|last| line.starts_with(&self.own[last]));
        is_own || self.outer.is_some_and(|outer| outer.begin(line))
    }
}

fn as_base64(body: &Blob) -> (Blob, &'static str) {
    (Blob::elsewhere(Arc::new(Base64Source::new(body.clone()))), "base64")
}

fn header_of(message: &Blob, header: &Range<usize>) -> io::Result<Bytes> {
    message.slice(header.clone()).to_bytes()
}

fn ends_with_empty_line(header: &[u8]) -> bool {
    let line = header.strip_suffix(b"\r\n").or_else(|| header.strip_suffix(b"\n"));
    line.is_some_and(|before| before.is_empty() || before.ends_with(b"\n"))
}

/// Returns the charset of a text that declares no type, as programs without MIME write it (RFC 1428 section 3).
fn missing_charset(part: &Part, body: &Blob) -> Result<Option<&'static str>, ConversionError> {
    if !part.content_type.value.is_empty() || part.media_type != "text/plain" {
        return Ok(None);
    }
    let beginning = body.slice(0..IN_MEMORY_BYTES).to_bytes()?;
    let is_utf8 = match std::str::from_utf8(&beginning) {
        Ok(_) => true,
        // The beginning may end within a character.
        Err(error) => error.error_len().is_none(),
    };
    Ok(Some(if is_utf8 { "utf-8" } else { "unknown-8bit" }))
}

/// Returns the bodies of signed multiparts, without those inside others (RFC 1847 section 2.1).
fn signed_ranges(parts: &[Part]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for part in parts.iter().filter(|part| part.content_type.value == "multipart/signed") {
        if ranges.last().is_none_or(|last| last.end <= part.body.start) {
            ranges.push(part.body.clone());
        }
    }
    ranges
}

fn is_within(ranges: &[Range<usize>], at: usize) -> bool {
    let next = ranges.partition_point(|range| range.end <= at);
    ranges.get(next).is_some_and(|range| range.contains(&at))
}

/// Names of encodings that leave the content as it is (RFC 2045 section 6.2), without hyphens.
const IDENTITIES: [&str; 4] = ["", "7bit", "8bit", "binary"];

/// Returns whether the part has one of these encodings, or none. Others, such as `x-uuencode`, are not known here, so none
/// can be added.
fn has_no_encoding(header: &[u8], names: &[&str]) -> bool {
    let name = Header::of(header).text("Content-Transfer-Encoding").unwrap_or_default();
    names.contains(&name.trim().to_ascii_lowercase().replace('-', "").as_str())
}

fn is_ascii(content: &Blob) -> io::Result<bool> {
    if let Some(bytes) = content.in_memory() {
        return Ok(bytes.is_ascii());
    }
    for piece in content.pieces(PIECE_BYTES) {
        if !piece?.is_ascii() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn escaped(body: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(body.len());
    for byte in body {
        if byte.is_ascii() {
            escaped.push(*byte);
        } else {
            escaped.extend_from_slice(format!("={byte:02X}").as_bytes());
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{MessageStructure, PartTree, PartTreeContent, decode};
    use super::*;

    fn converted(message: &[u8]) -> Result<String, ConversionError> {
        let bytes = in_seven_bits(&Blob::from(message.to_vec()))?.to_bytes()?;
        Ok(String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn what_its_author_signed_is_not_touched() {
        let signed = "From: a@x.example\r\nContent-Type: multipart/signed; boundary=s\r\n\r\n\
            --s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\nGrüße\r\n\
            --s\r\nContent-Type: application/pgp-signature\r\n\r\nabc\r\n--s--\r\n";
        assert!(matches!(converted(signed.as_bytes()), Err(ConversionError::Signed)));
        let name = signed.replace("Grüße", "Hi").replace("charset=utf-8", "name=ü");
        assert!(matches!(converted(name.as_bytes()), Err(ConversionError::Signed)));
        let outside = signed.replace("Grüße", "Hi").replace("From:", "Subject: ü\r\nFrom:");
        let converted = converted(outside.as_bytes()).unwrap();
        assert!(converted.contains("Content-Transfer-Encoding: 8bit\r\n\r\nHi\r\n"), "{converted}");
        assert!(converted.starts_with("Subject: =?"), "{converted}");
    }

    #[test]
    fn forms_without_an_encoding_are_refused() {
        for head in [
            "Content-Type: message/partial; number=1; total=2; id=x",
            "Content-Type: multipart/mixed; boundary=ü",
            "Content-Type: multipart/mixed",
            "Content-Transfer-Encoding: x-uuencode",
        ] {
            let message = format!("{head}\r\n\r\nGrüße\r\n");
            assert!(matches!(converted(message.as_bytes()), Err(ConversionError::Form)), "{head}");
        }
        let address = "From: jürgen@x.example\r\n\r\nHi\r\n";
        assert!(matches!(converted(address.as_bytes()), Err(ConversionError::Address)));
    }

    #[test]
    fn each_part_is_encoded_by_its_kind() {
        let message = "From: a@x.example\r\nContent-Type: multipart/mixed; boundary=b\r\nContent-Transfer-Encoding: 8bit\r\n\r\n\
            für alte Programme\r\n--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nGrüße  \r\n\
            --b\r\nContent-Type: application/pdf; name=\"Prüfung.pdf\"\r\nContent-Transfer-Encoding: binary\r\n\r\nü\u{0}\r\n\
            --b\r\nContent-Type: message/rfc822\r\nContent-Transfer-Encoding: 8bit\r\n\r\nSubject: Fünf\r\n\r\nSätze\r\n\
            --b\r\nContent-Type: text/plain\r\n\r\nASCII\r\n--b--\r\n";
        let converted = converted(message.as_bytes()).unwrap();
        let expected = "From: a@x.example\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
            f??r alte Programme\r\n--b\r\nContent-Type: text/plain; charset=utf-8\r\n\
            Content-Transfer-Encoding: quoted-printable\r\n\r\nGr=C3=BC=C3=9Fe =20\r\n\
            --b\r\nContent-Type: application/pdf; name*=UTF-8''Pr%C3%BCfung.pdf\r\n\
            Content-Transfer-Encoding: base64\r\n\r\nw7wA\r\n\
            --b\r\nContent-Type: message/rfc822\r\nContent-Transfer-Encoding: 7bit\r\n\r\n\
            Subject: =?UTF-8?B?RsO8bmY=?=\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\
            Content-Transfer-Encoding: quoted-printable\r\n\r\nS=C3=A4tze\r\n\
            --b\r\nContent-Type: text/plain\r\n\r\nASCII\r\n--b--\r\n";
        assert_eq!(converted.replace("?utf-8?", "?UTF-8?"), expected);
    }

    #[test]
    fn no_break_within_a_line_begins_a_boundary() {
        for length in 50..90 {
            let text = format!("ü{}--b--", "x".repeat(length));
            let message = format!(
                "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n\
                 {text}\r\n--b\r\n\r\nthe end\r\n--b--\r\n"
            );
            let converted = converted(message.as_bytes()).unwrap();
            let (limits, bytes) = (Limits::default(), converted.as_bytes());
            let blob = Blob::from(bytes.to_vec());
            let parts = structure::read_parts(&mut Window::new(&blob, Window::PIECE, &limits), &limits).unwrap();
            assert_eq!(parts.len(), 3, "{converted}");
            assert_eq!(decode(parts[1].encoding, &bytes[parts[1].body.clone()]), text.as_bytes());
        }
    }

    #[test]
    fn no_conversion_completes_a_delimiter() {
        let part = |boundary: &str, part: &[u8]| {
            let head = format!("Content-Type: multipart/mixed; boundary=\"{boundary}\"\r\n\r\n--{boundary}\r\n");
            let end = format!("\r\n--{boundary}\r\n\r\nthe end\r\n--{boundary}--\r\n");
            [head.as_bytes(), part, end.as_bytes()].concat()
        };
        let (encoded, plain) = ("Content-Transfer-Encoding: base64\r\n\r\n", "Content-Type: text/plain\r\n\r\n");
        let quoted = "Content-Transfer-Encoding: quoted-printable\r\n\r\n";
        let with = |head: &str, rest: &[u8]| [head.as_bytes(), rest].concat();
        let inside =
            with("Content-Type: message/rfc822\r\n\r\nSubject: x\r\n", &with(encoded, b"AAAA\r\n\xfc--b\r\nBBBB"));
        for (boundary, content, leaf) in [
            // An octet that is left out, before and after the delimiter.
            ("b", with(encoded, b"AAAA\r\n--b\r\xff\nBBBB"), &b"\0\0\0l\x10\x41"[..]),
            ("b", with(encoded, b"AAAA\r\n\xfc--b\r\nBBBB"), b"\0\0\0l\x10\x41"),
            ("b", inside, b"\0\0\0l\x10\x41"),
            // An octet that is written as the delimiter has it.
            ("b=FC", with(quoted, b"a\r\n--b\xfc\r\nc"), b"a\r\n--b\xfc\r\nc"),
            ("b=FC", with(plain, b"a\r\n--b\xfc\r\nc"), b"a\r\n--b\xfc\r\nc"),
        ] {
            let message = part(boundary, &content);
            let converted = in_seven_bits(&Blob::from(message.clone())).unwrap().to_bytes().unwrap();
            assert!(converted.is_ascii());
            let mut after = Vec::new();
            leaves(&PartTree::of(&converted), &converted, &mut after);
            let shown = String::from_utf8_lossy(&converted);
            assert_eq!(after, [leaf, b"the end"], "{shown}");
        }
        // Between the parts.
        let mut message = part("b?", b"\r\nfirst");
        message.extend_from_slice(b"--b\xff\r\n\r\nno part\r\n");
        let converted =
            String::from_utf8(in_seven_bits(&message.into()).unwrap().to_bytes().unwrap().to_vec()).unwrap();
        assert!(converted.ends_with("\r\n--b*\r\n\r\nno part\r\n"), "{converted}");
        // Of boundaries that begin alike, each counts.
        let nested = "Content-Type: multipart/mixed; boundary=b2\r\n\r\n--b2\r\nContent-Type: multipart/mixed; \
            boundary=bc\r\n\r\n--bc\r\nContent-Transfer-Encoding: base64\r\n\r\nAAAA\r\n\u{fc}--b2\r\nBBBB";
        let converted = in_seven_bits(&part("b", nested.as_bytes()).into()).unwrap().to_bytes().unwrap();
        assert_eq!(converted.windows(6).filter(|octets| octets == b"\r\n--b2").count(), 1, "{converted:?}");
        let all = part("b?*!#~", b"\r\nfirst\r\n--b?*!#~--\r\n\xfc");
        assert!(matches!(in_seven_bits(&all.into()), Err(ConversionError::Form)));
    }

    #[test]
    fn a_header_without_its_empty_line_gets_one() {
        let digest = "Content-Type: multipart/digest; boundary=b\r\n--b\r\n\r\nSubject: für x\r\n\r\nHi\r\n--b--\r\n";
        let converted = converted(digest.as_bytes()).unwrap();
        assert!(
            converted.contains("boundary=b\r\n\r\n--b\r\nContent-Transfer-Encoding: 7bit\r\n\r\nSubject: =?"),
            "{converted}"
        );
    }

    #[test]
    fn text_without_a_type_gets_one() {
        let latin = converted(b"Subject: x\r\n\r\ncaf\xe9\r\n").unwrap();
        assert!(latin.contains("Content-Type: text/plain; charset=unknown-8bit\r\n"), "{latin}");
        let bare = converted("Grüße ohne Kopf\r\n".as_bytes()).unwrap();
        let head = "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n";
        assert_eq!(bare, format!("{head}Gr=C3=BC=C3=9Fe ohne Kopf\r\n"));
    }

    #[test]
    fn large_parts_are_encoded_while_they_are_read() {
        let text = "Grüße, und noch mehr davon.\r\n".repeat(60_000);
        let message = format!("Subject: x\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{text}");
        let blob = in_seven_bits(&Blob::from(message.into_bytes())).unwrap();
        assert!(blob.in_memory().is_none());
        let converted = blob.to_bytes().unwrap();
        let structure = MessageStructure::of(&converted);
        let body = &structure.bodies[0];
        assert_eq!(decode(body.span.encoding, body.span.of(&converted)), text.as_bytes());
        for size in [1, 77, 78, 100_000] {
            let piece = blob.slice(50_000..50_000 + size).to_bytes().unwrap();
            assert_eq!(piece, converted.slice(50_000..50_000 + size));
        }
    }

    /// Returns what each leaf has, decoded.
    fn leaves(tree: &PartTree, message: &[u8], into: &mut Vec<Vec<u8>>) {
        match &tree.content {
            PartTreeContent::Multipart(parts) => parts.iter().for_each(|part| leaves(part, message, into)),
            PartTreeContent::Message(inside) => leaves(inside, message, into),
            PartTreeContent::Leaf => {
                let encoding = Header::of(&message[tree.header.clone()]).text("Content-Transfer-Encoding");
                let encoding = encoding.as_deref().map(TransferEncoding::named).unwrap_or_default();
                into.push(decode(encoding, &message[tree.body.clone()]));
            }
        }
    }

    proptest! {
        #[test]
        fn the_same_content_arrives_in_ascii(
            lines in prop::collection::vec(prop_oneof![
                Just("Content-Type: multipart/mixed; boundary=a"), Just("Content-Type: multipart/digest; boundary=b"),
                Just("--a"), Just("--b"), Just("--a--"), Just(""), Just("Grüße"), Just("\u{0}= \t"), Just("Content-Type: text/html"),
                Just("Content-Type: image/png; name=ü"), Just("Content-Transfer-Encoding: 8bit"), Just("Subject: für x <a@b>"),
                Just("Content-Transfer-Encoding: base64"), Just("Content-Transfer-Encoding: quoted-printable"), Just("ü--a"),
                Just("--aü"), Just("--bü--"), Just("Content-Type: multipart/mixed; boundary=\"a=C3=BC\""),
                Just("Content-Type: multipart/mixed; boundary=\"b??--\""),
            ], 0..40),
        ) {
            let message = lines.join("\r\n").into_bytes();
            if let Ok(converted) = in_seven_bits(&Blob::from(message.clone())) {
                let converted = converted.to_bytes().unwrap();
                prop_assert!(converted.is_ascii());
                let (mut before, mut after) = (Vec::new(), Vec::new());
                leaves(&PartTree::of(&message), &message, &mut before);
                leaves(&PartTree::of(&converted), &converted, &mut after);
                prop_assert_eq!(before, after);
            }
        }

        #[test]
        fn any_octets_are_converted_or_refused(message in prop::collection::vec(prop_oneof![any::<u8>(),
            prop::sample::select(b"\r\n:-;= \xfc".to_vec())], 0..200)) {
            if let Ok(converted) = in_seven_bits(&Blob::from(message.clone())) {
                prop_assert!(converted.to_bytes().unwrap().is_ascii());
            }
            if let Ok(converted) = with_ascii_header(&Blob::from(message)) {
                let converted = converted.to_bytes().unwrap();
                let end = MessageStructure::of(&converted).header().length;
                prop_assert!(converted[..usize::try_from(end).unwrap()].is_ascii());
            }
        }
    }
}
