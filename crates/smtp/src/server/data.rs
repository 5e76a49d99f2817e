//! The text after DATA: finds its end and keeps the message.
//!
//! Only CRLF "." CRLF ends it (RFC 5321 section 4.1.1.4). A server that accepts other line ends there, behind
//! a relay that does not, executes message text as commands ("SMTP smuggling"). A bare CR or LF therefore
//! never ends the text, and a message that contains one is rejected (RFC 5321 section 2.3.8).

use super::budget::Share;
use super::config::Config;

/// Minimum size of a message buffer.
const MIN_BYTES: usize = 4096;

/// Largest read that fits in the buffer beyond the end of a piece.
const READ_BYTES: usize = 64 * 1024;

/// Result at the end of the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// The message, or its rest after the pieces: dot-unstuffed, every line ending in CRLF.
    Message(Vec<u8>, Share),
    /// The text contains a bare CR or LF.
    BareLineEnd,
    /// The message is longer than the limit.
    TooLong,
    /// The message budget is exhausted, or the host lost a piece.
    NoRoom,
}

/// Position of the next byte within a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    LineStart,
    /// After a dot at the start of a line; the dot is dropped.
    Dot,
    /// After that dot and a CR.
    DotCr,
    InLine,
    Cr,
}

/// Parses the text, in pieces of any size.
pub(super) struct DataReader {
    at: At,
    /// The text that was not returned as a piece yet.
    body: Vec<u8>,
    /// Length of the message so far, with the pieces returned and the text dropped for lack of room.
    length: usize,
    max_bytes: usize,
    piece_bytes: usize,
    spare_bytes: usize,
    share: Share,
    too_long: bool,
    no_room: bool,
    bare_line_end: bool,
}

impl DataReader {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            at: At::LineStart,
            body: Vec::new(),
            length: 0,
            max_bytes: config.max_message_bytes,
            piece_bytes: config.piece_bytes,
            spare_bytes: config.spare_bytes,
            share: Share::of(config.budget.clone()),
            too_long: false,
            no_room: false,
            bare_line_end: false,
        }
    }

    /// Processes the next bytes. Returns how many of them belong to the text, and whether its end was among
    /// them. The bytes after the end are commands.
    pub(super) fn read(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut used = 0;
        while used < bytes.len() {
            // Most bytes are inside a line and are copied in runs.
            if self.at == At::InLine {
                let rest = &bytes[used..];
                let run = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(rest.len());
                self.keep(&rest[..run]);
                used += run;
                if run == rest.len() {
                    break;
                }
            }
            let byte = bytes[used];
            used += 1;
            if self.at == At::DotCr && byte == b'\n' {
                return (used, true);
            }
            self.at = self.advance(byte);
        }
        (used, false)
    }

    fn advance(&mut self, byte: u8) -> At {
        match (self.at, byte) {
            (At::LineStart, b'.') => At::Dot,
            (At::Dot, b'\r') => At::DotCr,
            (At::Cr, b'\n') => {
                self.keep(b"\r\n");
                At::LineStart
            }
            // The CR before this byte was bare.
            (At::Cr | At::DotCr, _) => {
                self.refuse_line_end();
                if byte == b'\r' { At::Cr } else { At::InLine }
            }
            (_, b'\r') => At::Cr,
            (_, b'\n') => {
                self.refuse_line_end();
                At::InLine
            }
            (_, byte) => {
                self.keep(&[byte]);
                At::InLine
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        // A message that will be refused needs no more memory.
        if self.bare_line_end || self.too_long {
            return;
        }
        // Without room, the length still decides between a permanent and a temporary failure.
        self.length = self.length.saturating_add(bytes.len());
        if self.length > self.max_bytes {
            self.too_long = true;
            self.forget();
        } else if !self.no_room && self.make_room(bytes.len()) {
            self.body.extend_from_slice(bytes);
        } else {
            self.lose();
        }
    }

    /// Grows the buffer explicitly, so that the budget counts its real capacity.
    fn make_room(&mut self, bytes: usize) -> bool {
        let needed = self.body.len() + bytes;
        if needed <= self.body.capacity().saturating_sub(self.spare_bytes) {
            return true;
        }
        // Doubling keeps copies rare. A streamed message needs room for one piece and one read only.
        let longest = self.max_bytes.min(self.piece_bytes.saturating_add(READ_BYTES)).max(needed);
        let capacity = needed.saturating_mul(2).clamp(MIN_BYTES.min(longest), longest) + self.spare_bytes;
        if !self.share.grow(capacity.saturating_sub(self.body.capacity())) {
            return false;
        }
        self.body.reserve_exact(capacity - self.body.len());
        true
    }

    /// Returns the buffered text once it is longer than a piece.
    pub(super) fn take_piece(&mut self) -> Option<Vec<u8>> {
        if self.body.len() <= self.piece_bytes {
            return None;
        }
        self.share.release();
        Some(std::mem::take(&mut self.body))
    }

    /// Marks the message as lost: the host could not keep a piece.
    pub(super) fn lose(&mut self) {
        self.no_room = true;
        self.forget();
    }

    fn forget(&mut self) {
        self.body = Vec::new();
        self.share.release();
    }

    fn refuse_line_end(&mut self) {
        self.bare_line_end = true;
        self.forget();
    }

    /// Returns the result. A bare line end takes precedence over the length, and the length over the room, in whichever
    /// order they came.
    pub(super) fn finish(self) -> Received {
        if self.bare_line_end {
            Received::BareLineEnd
        } else if self.too_long {
            Received::TooLong
        } else if self.no_room {
            Received::NoRoom
        } else {
            Received::Message(self.body, self.share)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::budget::MessageBudget;
    use super::super::config::Role;
    use super::*;

    fn reader(max_message_bytes: usize) -> DataReader {
        DataReader::new(&Config { max_message_bytes, ..Config::new("mx.example", Role::Inbound) })
    }

    fn message(body: &[u8]) -> Received {
        Received::Message(body.to_vec(), Share::default())
    }

    #[test]
    fn a_long_message_comes_in_pieces_and_all_of_them_count() {
        let config = Config { piece_bytes: 4, ..Config::new("mx.example", Role::Inbound) };
        let mut reader = DataReader::new(&Config { max_message_bytes: 12, ..config.clone() });
        let mut pieces = Vec::new();
        for text in ["..ab", "cd\r", "\nefgh"] {
            assert!(!reader.read(text.as_bytes()).1);
            pieces.push(reader.take_piece());
        }
        assert_eq!(pieces, [None, Some(b".abcd".to_vec()), Some(b"\r\nefgh".to_vec())]);
        assert!(!reader.read(b"\r\n").1);
        assert!(reader.read(b".\r\n").1);
        assert_eq!(reader.finish(), Received::TooLong);
        let mut lost = DataReader::new(&config);
        lost.read(b"abcdef");
        assert!(lost.take_piece().is_some());
        lost.lose();
        assert!(lost.read(b"ghijklm\r\n.\r\n").1 && lost.take_piece().is_none());
        assert_eq!(lost.finish(), Received::NoRoom);
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_so_even_without_room() {
        let budget = Some(MessageBudget::new(10));
        let config = Config { max_message_bytes: 12, budget, ..Config::new("mx.example", Role::Inbound) };
        for (text, expected) in [("0123456789\r\n", Received::NoRoom), ("0123456789a\r\n", Received::TooLong)] {
            let text = format!("{text}.\r\n");
            for chunk in [1, 4, 64] {
                let mut reader = DataReader::new(&config);
                assert!(text.as_bytes().chunks(chunk).any(|piece| reader.read(piece).1));
                assert_eq!(reader.finish(), expected, "{text:?} in pieces of {chunk}");
            }
        }
    }

    fn read_all(text: &[u8], chunk: usize) -> Option<Received> {
        let mut reader = reader(40);
        let mut total = 0;
        for piece in text.chunks(chunk) {
            let (used, ended) = reader.read(piece);
            total += used;
            if ended {
                assert_eq!(total, text.len(), "ended before the end of {text:?}");
                return Some(reader.finish());
            }
        }
        None
    }

    #[test]
    fn nothing_but_crlf_dot_crlf_ends_the_text() {
        for text in [
            "a\n.\n",
            "a\n.\r\n",
            "a\r\n.\n",
            "a\r\n.\r",
            "a\r.\r",
            "a\r.\r\n",
            "a\r\n\0.\r\n",
            "a\r\n.\0\r\n",
            "a\r\n. \r\n",
            "a\r\n..\r\n",
            "a\r\n.\r\r\n",
            "a.\r\n",
            ".\n",
        ] {
            for chunk in [1, 2, 64] {
                assert_eq!(read_all(text.as_bytes(), chunk), None, "{text:?}");
            }
        }
    }

    #[test]
    fn a_bare_line_end_anywhere_refuses_the_message_at_its_real_end() {
        for text in ["a\nb", "a\rb", "\n", "\r", "a\r\r\nb", "a\n.\r\nb", "a\r\n.\nb", "a\r\n.\rb"] {
            let text = format!("{text}\r\n.\r\n");
            for chunk in [1, 2, 64] {
                assert_eq!(read_all(text.as_bytes(), chunk), Some(Received::BareLineEnd), "{text:?}");
            }
        }
    }

    #[test]
    fn dots_are_unstuffed_and_all_other_bytes_kept() {
        for (text, body) in
            [(".\r\n", ""), ("\r\n.\r\n", "\r\n"), ("a\0b\r\n..\r\n...c\r\n.d\r\n.\r\n", "a\0b\r\n.\r\n..c\r\nd\r\n")]
        {
            for chunk in [1, 2, 64] {
                let read = read_all(text.as_bytes(), chunk);
                assert_eq!(read, Some(message(body.as_bytes())));
            }
        }
    }

    #[test]
    fn the_limit_counts_the_unstuffed_bytes() {
        let fits = format!("..{}\r\n.\r\n", "x".repeat(37));
        let too_long = format!("..{}\r\n.\r\n", "x".repeat(38));
        for chunk in [1, 7, 64] {
            assert!(matches!(read_all(fits.as_bytes(), chunk), Some(Received::Message(..))));
            assert_eq!(read_all(too_long.as_bytes(), chunk), Some(Received::TooLong));
        }
    }

    /// The same without a state machine: cut at the first CRLF.CRLF, then inspect the lines.
    fn expected(text: &str) -> Received {
        let text = format!("\r\n{text}");
        let end = text.find("\r\n.\r\n").expect("the text has an end");
        let lines: Vec<&str> = text[..end].split("\r\n").skip(1).collect();
        if lines.iter().any(|line| line.contains(['\r', '\n'])) {
            return Received::BareLineEnd;
        }
        let unstuffed = |line: &&str| format!("{}\r\n", line.strip_prefix('.').unwrap_or(line));
        message(lines.iter().map(unstuffed).collect::<String>().as_bytes())
    }

    proptest! {
        #[test]
        fn it_reads_what_the_definition_says(body in "(\r\n|\r|\n|\\.|\r\n\\.|x|\0){0,12}", chunk in 1_usize..9) {
            let text = format!("{body}\r\n.\r\n");
            let mut reader = reader(1000);
            let ended = text.as_bytes().chunks(chunk).any(|piece| reader.read(piece).1);
            prop_assert!(ended);
            prop_assert_eq!(reader.finish(), expected(&text));
        }
    }
}
