//! Encodes tokens so that no value can be read as protocol.

use std::collections::VecDeque;
use std::ops::Range;

use super::is_astring_char;

/// Maximum length of a quoted string; longer ones become literals, since some clients have small line buffers.
const MAX_QUOTED: usize = 512;

/// A buffer for output.
#[derive(Default)]
pub struct Writer {
    out: Vec<u8>,
    /// Ranges whose octets the host sends, each with its position in `out`.
    spans: VecDeque<(usize, Range<u64>)>,
}

impl Writer {
    /// An empty writer.
    pub fn new() -> Self {
        Self::default()
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
    pub fn take_span(&mut self) -> Option<Range<u64>> {
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

    /// Writes a string: quoted if it is short, printable ASCII, else as a literal.
    pub fn string(&mut self, value: &[u8]) -> &mut Self {
        let plain = |&byte: &u8| byte == b' ' || byte.is_ascii_graphic();
        if value.len() > MAX_QUOTED || !value.iter().all(plain) {
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

    /// Writes a literal. NUL is not allowed in it (RFC 3501 section 9) and literal8 is not offered. NUL is
    /// therefore sent as 0x80, like Dovecot does: sizes and offsets stay correct.
    pub fn literal(&mut self, value: &[u8]) -> &mut Self {
        self.raw("{").number(value.len() as u64).raw("}\r\n");
        self.out.extend(value.iter().copied().map(without_nul));
        self
    }

    /// Writes the announcement of a literal whose octets the host sends on [`Writer::take_span`], each through
    /// [`without_nul`].
    pub(crate) fn literal_span(&mut self, span: Range<u64>) -> &mut Self {
        self.raw("{").number(span.end.saturating_sub(span.start)).raw("}\r\n");
        self.spans.push_back((self.out.len(), span));
        self
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
        assert_eq!((writer.take(), writer.take_span()), (Vec::new(), Some(5..8)));
        assert_eq!((writer.take(), writer.take_span()), (b"{0}\r\n".to_vec(), Some(0..0)));
        assert!(!writer.is_empty());
        assert_eq!((writer.take(), writer.take_span()), (b" b".to_vec(), None));
        assert!(writer.is_empty());
    }

    proptest! {
        #[test]
        fn strings_read_back(value in prop::collection::vec(1u8.., 0..600)) {
            let mut writer = Writer::new();
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
