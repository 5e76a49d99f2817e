//! Encodes tokens so that no value can be read as protocol.

use std::collections::VecDeque;
use std::ops::Range;

use super::is_astring_char;
use crate::mailbox::MailboxName;

/// Maximum length of a quoted string; longer ones become literals, since some clients have small line buffers.
const MAX_QUOTED: usize = 512;

/// Octets that the host sends itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    /// Stored octets of the message, each through [`without_nul`].
    Stored(Range<u64>),
    /// Octets of a part without its transfer encoding.
    Decoded {
        /// Part numbers; empty for the whole message.
        path: Vec<u32>,
        /// The range of the decoded octets.
        range: Range<u64>,
    },
}

/// A buffer for output.
#[derive(Default)]
pub struct Writer {
    out: Vec<u8>,
    /// Ranges whose octets the host sends, each with its position in `out`.
    spans: VecDeque<(usize, Span)>,
    utf8: bool,
}

impl Writer {
    /// An empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes strings and names of mailboxes in UTF-8 from now on (RFC 6855 section 3).
    pub(crate) fn enable_utf8(&mut self) {
        self.utf8 = true;
    }

    /// Whether strings may be UTF-8.
    pub(crate) fn is_utf8(&self) -> bool {
        self.utf8
    }

    /// Takes the output up to the next span, or all of it.
    pub fn take(&mut self) -> Vec<u8> {
        let Some(&(before, _)) = self.spans.front() else { return std::mem::take(&mut self.out) };
        let rest = self.out.split_off(before);
        // The remaining spans are relative to the remaining output.
        self.spans.iter_mut().for_each(|(at, _)| *at -= before);
        std::mem::replace(&mut self.out, rest)
    }

    /// Takes the next span; `None` while output before it is pending.
    pub fn take_span(&mut self) -> Option<Span> {
        self.spans.pop_front_if(|(at, _)| *at == 0).map(|(_, span)| span)
    }

    /// Bytes of pending output, without spans.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether no output is pending.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty() && self.spans.is_empty()
    }

    /// Writes protocol text unchanged. Never for external values.
    pub fn raw(&mut self, text: &str) -> &mut Self {
        self.out.extend_from_slice(text.as_bytes());
        self
    }

    /// Writes the octets of an announced literal unchanged.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.out.extend_from_slice(bytes);
        self
    }

    /// Writes a number.
    pub fn number(&mut self, number: u64) -> &mut Self {
        self.raw(&number.to_string())
    }

    /// Writes a line end.
    pub(crate) fn crlf(&mut self) -> &mut Self {
        self.raw("\r\n")
    }

    /// Writes human-readable text. Controls and 8-bit characters become `?`, so that it stays on one line.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.out.extend(text.chars().map(|c| if c == ' ' || c.is_ascii_graphic() { c as u8 } else { b'?' }));
        self
    }

    /// Writes a string: quoted if it is short and printable, else as a literal. Only with UTF-8 enabled may a quoted
    /// string have characters beyond ASCII.
    pub fn string(&mut self, value: &[u8]) -> &mut Self {
        let plain = |&byte: &u8| byte == b' ' || byte.is_ascii_graphic();
        let is_utf8 = || std::str::from_utf8(value).is_ok_and(|text| !text.contains(char::is_control));
        if value.len() > MAX_QUOTED || !(value.iter().all(plain) || (self.utf8 && is_utf8())) {
            return self.literal(value);
        }
        self.out.push(b'"');
        for &byte in value {
            if matches!(byte, b'"' | b'\\') {
                self.out.push(b'\\');
            }
            self.out.push(byte);
        }
        self.out.push(b'"');
        self
    }

    /// Writes an atom if the value allows it (and is not `NIL`), else a string.
    pub(crate) fn astring(&mut self, value: &[u8]) -> &mut Self {
        let bare = !value.is_empty() && value.iter().all(|&byte| is_astring_char(byte));
        // A bare NIL would be read as "no value".
        if !bare || value.eq_ignore_ascii_case(b"NIL") {
            return self.string(value);
        }
        self.out.extend_from_slice(value);
        self
    }

    /// Writes the name of a mailbox in the form that the client enabled.
    pub(crate) fn mailbox(&mut self, name: &MailboxName) -> &mut Self {
        if self.utf8 { self.astring(name.as_str().as_bytes()) } else { self.astring(name.to_wire().as_bytes()) }
    }

    /// Writes a literal. NUL is not allowed in it (RFC 3501 section 9), and is therefore sent as 0x80, like Dovecot
    /// does: sizes and offsets stay correct.
    pub fn literal(&mut self, value: &[u8]) -> &mut Self {
        self.raw("{").number(value.len() as u64).raw("}\r\n");
        self.out.extend(value.iter().copied().map(without_nul));
        self
    }

    /// Writes the announcement of a literal whose octets the host sends on [`Writer::take_span`], each through
    /// [`without_nul`].
    pub(crate) fn literal_span(&mut self, span: Range<u64>) -> &mut Self {
        self.raw("{").number(span.end.saturating_sub(span.start)).raw("}\r\n");
        self.spans.push_back((self.out.len(), Span::Stored(span)));
        self
    }

    /// Writes the announcement of decoded octets that the host sends on [`Writer::take_span`].
    pub(crate) fn decoded_span(&mut self, path: &[u32], range: Range<u64>, has_nul: bool) -> &mut Self {
        self.announce_decoded(range.end.saturating_sub(range.start), has_nul);
        self.spans.push_back((self.out.len(), Span::Decoded { path: path.to_vec(), range }));
        self
    }

    /// Writes decoded octets unchanged.
    pub(crate) fn decoded(&mut self, value: &[u8]) -> &mut Self {
        self.announce_decoded(value.len() as u64, memchr::memchr(0, value).is_some()).bytes(value)
    }

    /// Only a literal8 may contain NUL (RFC 3516 section 4.2). Fewer clients can read it, so others are preferred.
    fn announce_decoded(&mut self, length: u64, has_nul: bool) -> &mut Self {
        self.raw(if has_nul { "~{" } else { "{" }).number(length).raw("}\r\n")
    }

    /// Writes a parenthesized list with elements separated by spaces.
    pub fn list<T>(&mut self, elements: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Self, T)) -> &mut Self {
        self.raw("(");
        for (at, element) in elements.into_iter().enumerate() {
            if at > 0 {
                self.raw(" ");
            }
            write(self, element);
        }
        self.raw(")")
    }
}

/// Maps an octet to its form in a literal; see [`Writer::literal`].
#[must_use]
pub const fn without_nul(byte: u8) -> u8 {
    if byte == 0 { 0x80 } else { byte }
}

#[cfg(test)]
mod tests {
    use super::super::{Cursor, FrameReader, Limits, Poll, Side};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_that_look_like_protocol_stay_values() {
        let mut writer = Writer::new();
        writer.string(b"a\r\n* BYE").raw(" ").astring(b"nil").raw(" ").string(b"\"\\").raw(" ").text("a\r\nb\u{e9}");
        assert_eq!(writer.take(), b"{8}\r\na\r\n* BYE \"nil\" \"\\\"\\\\\" a??b?");
    }

    #[test]
    fn only_with_utf8_are_quoted_strings_utf8() {
        let mut writer = Writer::new();
        let name = MailboxName::new("Größe & \"x\"", 255).unwrap();
        writer.string("é".as_bytes()).raw(" ").mailbox(&name);
        assert_eq!(writer.take(), "{2}\r\né \"Gr&APYA3w-e &- \\\"x\\\"\"".as_bytes());
        writer.enable_utf8();
        writer
            .string("é".as_bytes())
            .raw(" ")
            .mailbox(&name)
            .raw(" ")
            .string(b"\xff")
            .raw(" ")
            .string("\u{85}".as_bytes());
        let expected = ["\"é\" \"Größe & \\\"x\\\"\" {1}\r\n".as_bytes(), b"\xff {2}\r\n\xc2\x85"].concat();
        assert_eq!(writer.take(), expected);
    }

    #[test]
    fn nul_keeps_the_size() {
        let mut writer = Writer::new();
        writer.literal(b"a\0b");
        assert_eq!(writer.take(), b"{3}\r\na\x80b");
    }

    #[test]
    fn spans_keep_their_place() {
        let mut writer = Writer::new();
        writer.raw("a ").literal_span(5..8).literal_span(0..0).raw(" b");
        assert_eq!((writer.take_span(), writer.take()), (None, b"a {3}\r\n".to_vec()));
        assert_eq!((writer.take(), writer.take_span()), (Vec::new(), Some(Span::Stored(5..8))));
        assert_eq!((writer.take(), writer.take_span()), (b"{0}\r\n".to_vec(), Some(Span::Stored(0..0))));
        assert!(!writer.is_empty());
        assert_eq!((writer.take(), writer.take_span()), (b" b".to_vec(), None));
        writer.decoded_span(&[1], 2..4, true).decoded(b"\0a");
        let span = Some(Span::Decoded { path: vec![1], range: 2..4 });
        assert_eq!((writer.take(), writer.take_span()), (b"~{2}\r\n".to_vec(), span));
        assert_eq!(writer.take(), b"~{2}\r\n\0a");
        assert!(writer.is_empty());
    }

    proptest! {
        #[test]
        fn strings_read_back(
            value in prop_oneof![prop::collection::vec(1u8.., 0..600), "\\PC{0,60}".prop_map(String::into_bytes)],
            utf8: bool,
        ) {
            let mut writer = Writer { utf8, ..Writer::default() };
            writer.raw("* X ").astring(&value).crlf();
            let mut reader = FrameReader::new(Side::Client, Limits::default());
            reader.feed(&writer.take());
            let Poll::Frame(frame) = reader.poll() else { panic!("no frame") };
            let mut cursor = Cursor::new(frame, 4);
            prop_assert!(cursor.try_byte(b'*'));
            cursor.space().unwrap();
            cursor.atom().unwrap();
            cursor.space().unwrap();
            prop_assert_eq!(cursor.astring().unwrap(), value);
            prop_assert_eq!(cursor.end(), Ok(()));
        }
    }
}
