//! The message as it goes over the wire: dot-stuffed, in pieces, the final dot with the last piece.

/// Writes a message out.
///
/// A bare CR or LF leaves as CRLF: nobody shall smuggle a message through us into a server that takes such
/// line ends for real ones. A missing CRLF at the end is added (RFC 5321 section 4.1.1.4).
pub(super) struct BodyWriter<'a> {
    message: &'a [u8],
    written: usize,
    at_line_start: bool,
}

impl<'a> BodyWriter<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { message, written: 0, at_line_start: true }
    }

    pub(super) fn message(&self) -> &'a [u8] {
        self.message
    }

    /// The next piece, of about `size` bytes, and whether it is the last.
    pub(super) fn next_piece(&mut self, size: usize) -> (Vec<u8>, bool) {
        let mut out = Vec::with_capacity(size.min(self.message.len() - self.written) + 16);
        while self.written < self.message.len() {
            if out.len() >= size.max(1) {
                return (out, false);
            }
            self.write_line(&mut out, size);
        }
        if !self.at_line_start {
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b".\r\n");
        (out, true)
    }

    /// Writes up to the next line end, or `size` bytes of a line longer than that.
    fn write_line(&mut self, out: &mut Vec<u8>, size: usize) {
        let rest = &self.message[self.written..];
        if self.at_line_start && rest[0] == b'.' {
            out.push(b'.');
        }
        let window = &rest[..rest.len().min(size.max(1))];
        let Some(run) = window.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
            out.extend_from_slice(window);
            self.written += window.len();
            self.at_line_start = false;
            return;
        };
        out.extend_from_slice(&window[..run]);
        out.extend_from_slice(b"\r\n");
        self.written += run + if rest[run..].starts_with(b"\r\n") { 2 } else { 1 };
        self.at_line_start = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(message: &[u8], size: usize) -> Vec<u8> {
        let mut writer = BodyWriter::new(message);
        let mut all = Vec::new();
        loop {
            let (piece, last) = writer.next_piece(size);
            all.extend(piece);
            if last {
                return all;
            }
        }
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
}
