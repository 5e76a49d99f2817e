//! The message in wire format: dot-stuffed, in pieces, with the final dot in the last piece.

/// Properties of a message that MAIL declares. Computed in advance, piece by piece for a streamed message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageFacts {
    /// Length in octets.
    len: usize,
    /// Whether the message contains bytes above 127.
    eight_bit: bool,
    /// Whether the header contains bytes above 127.
    international_header: bool,
    /// Number of octets of the header's end (CRLF CRLF) matched so far.
    header_end: usize,
}

impl Default for MessageFacts {
    fn default() -> Self {
        Self::new()
    }
}

impl MessageFacts {
    const HEADER_END: &'static [u8] = b"\r\n\r\n";

    /// Returns the facts of an empty message.
    #[must_use]
    pub const fn new() -> Self {
        Self { len: 0, eight_bit: false, international_header: false, header_end: 0 }
    }

    /// Returns the facts of a whole message.
    #[must_use]
    pub fn of(message: &[u8]) -> Self {
        let mut facts = Self::new();
        facts.see(message);
        facts
    }

    /// Returns the facts of a message that is read in pieces.
    ///
    /// # Errors
    /// The error of the first piece that could not be read.
    pub fn of_pieces<P: AsRef<[u8]>, E>(pieces: impl IntoIterator<Item = Result<P, E>>) -> Result<Self, E> {
        let mut facts = Self::new();
        for piece in pieces {
            facts.see(piece?.as_ref());
        }
        Ok(facts)
    }

    /// Processes the next piece.
    pub fn see(&mut self, piece: &[u8]) {
        self.len += piece.len();
        let is_ascii = piece.is_ascii();
        let header = self.rest_of_header(piece);
        self.international_header |= !is_ascii && !header.is_ascii();
        self.eight_bit |= !is_ascii;
    }

    /// Returns the part of a piece that belongs to the header.
    fn rest_of_header<'a>(&mut self, piece: &'a [u8]) -> &'a [u8] {
        for (at, byte) in piece.iter().enumerate() {
            match Self::HEADER_END.get(self.header_end) {
                None => return &piece[..at],
                Some(wanted) if byte == wanted => self.header_end += 1,
                Some(_) => self.header_end = usize::from(*byte == b'\r'),
            }
        }
        piece
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the message contains bytes above 127.
    #[must_use]
    pub const fn is_eight_bit(&self) -> bool {
        self.eight_bit
    }

    /// Returns whether the header contains bytes above 127.
    #[must_use]
    pub const fn has_international_header(&self) -> bool {
        self.international_header
    }
}

/// Writes a message in wire format.
///
/// A bare CR or LF becomes CRLF. Otherwise a message could smuggle commands into a server that accepts such
/// line ends. A missing CRLF at the end is added (RFC 5321 section 4.1.1.4).
#[derive(Debug)]
pub(super) struct BodyWriter {
    at: At,
}

/// Position of the next byte within a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    LineStart,
    /// After a CR, for which CRLF was written.
    Cr,
    InLine,
}

impl BodyWriter {
    pub(super) const fn new() -> Self {
        Self { at: At::LineStart }
    }

    /// Returns the next piece in wire format; the last piece includes the final dot.
    pub(super) fn write(&mut self, piece: &[u8], is_last: bool) -> Vec<u8> {
        /// Space for doubled dots and the final dot.
        const SPARE: usize = 64;
        let mut out = Vec::with_capacity(piece.len() + SPARE);
        let mut rest = piece;
        while !rest.is_empty() {
            rest = self.write_line(rest, &mut out);
        }
        if is_last {
            if self.at == At::InLine {
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(b".\r\n");
        }
        out
    }

    /// Writes up to the next line end. Returns the rest.
    fn write_line<'a>(&mut self, bytes: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        let mut rest = bytes;
        if self.at == At::Cr {
            self.at = At::LineStart;
            // The CR was already written as CRLF, so its LF is skipped.
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        if self.at == At::LineStart && rest.starts_with(b".") {
            out.push(b'.');
        }
        let run = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(rest.len());
        let (line, rest) = rest.split_at(run);
        out.extend_from_slice(line);
        match rest.split_first() {
            Some((end, rest)) => {
                out.extend_from_slice(b"\r\n");
                self.at = if *end == b'\r' { At::Cr } else { At::LineStart };
                rest
            }
            None => {
                // An empty run adds nothing to the line, so its position does not change.
                if run > 0 {
                    self.at = At::InLine;
                }
                rest
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(message: &[u8], size: usize) -> Vec<u8> {
        let mut writer = BodyWriter::new();
        let mut all: Vec<u8> = message.chunks(size).flat_map(|piece| writer.write(piece, false)).collect();
        all.extend(writer.write(b"", true));
        all
    }

    #[test]
    fn no_bare_line_end_leaves() {
        for size in [1, 2, 3, 64] {
            assert_eq!(written(b"a\n.\nb\r.\rc\r\n.\n", size), b"a\r\n..\r\nb\r\n..\r\nc\r\n..\r\n.\r\n");
        }
    }

    #[test]
    fn the_end_is_a_line_of_its_own() {
        for size in [1, 2, 64] {
            assert_eq!(written(b"", size), b".\r\n");
            assert_eq!(written(b"a", size), b"a\r\n.\r\n");
            assert_eq!(written(b"..a\r\n", size), b"...a\r\n.\r\n");
            assert_eq!(written(b"a\r", size), b"a\r\n.\r\n");
        }
    }

    proptest! {
        #[test]
        fn where_a_message_is_cut_makes_no_difference(
            message in prop::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'.'), Just(b'a'), Just(0xfc)], 0..60),
            size in 1_usize..9,
        ) {
            prop_assert_eq!(written(&message, size), written(&message, 60));
            let mut facts = MessageFacts::new();
            message.chunks(size).for_each(|piece| facts.see(piece));
            let header = message.windows(4).position(|four| four == b"\r\n\r\n").map_or(&message[..], |end| &message[..end]);
            prop_assert_eq!(facts.has_international_header(), !header.is_ascii());
            prop_assert_eq!((facts.len(), facts.is_eight_bit()), (message.len(), !message.is_ascii()));
        }
    }
}
