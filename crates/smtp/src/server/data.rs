//! The text after DATA: finds its end and keeps the message.
//!
//! Only CRLF "." CRLF ends it (RFC 5321 section 4.1.1.4). A server that accepts other line ends there, behind
//! a relay that does not, executes message text as commands ("SMTP smuggling"). A bare CR or LF therefore
//! never ends the text, and a message that contains one is rejected (RFC 5321 section 2.3.8).

use super::config::Config;
use super::text::{Received, Text};

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
    text: Text,
}

impl DataReader {
    pub(super) fn new(config: &Config) -> Self {
        Self { at: At::LineStart, text: Text::new(config) }
    }

    /// Processes the next bytes. Returns how many of them belong to the text, and whether its end was among
    /// them. The bytes after the end are commands.
    pub(super) fn read(&mut self, bytes: &[u8]) -> (usize, bool) {
        self.text.settle();
        let mut used = 0;
        while used < bytes.len() {
            // Most bytes are inside a line and are copied in runs.
            if self.at == At::InLine {
                let rest = &bytes[used..];
                let run = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(rest.len());
                self.text.keep(&rest[..run]);
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
                self.text.keep(b"\r\n");
                At::LineStart
            }
            // The CR before this byte was bare.
            (At::Cr | At::DotCr, _) => {
                self.text.refuse_line_end();
                if byte == b'\r' { At::Cr } else { At::InLine }
            }
            (_, b'\r') => At::Cr,
            (_, b'\n') => {
                self.text.refuse_line_end();
                At::InLine
            }
            (_, byte) => {
                self.text.keep(&[byte]);
                At::InLine
            }
        }
    }

    /// Returns the buffered text once it is longer than a piece.
    pub(super) fn take_piece(&mut self) -> Option<Vec<u8>> {
        self.text.take_piece()
    }

    /// Marks the message as lost: the host could not keep a piece.
    pub(super) fn lose(&mut self) {
        self.text.lose();
    }

    /// Returns the message, dot-unstuffed.
    pub(super) fn finish(self) -> Received {
        self.text.finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::budget::{MessageBudget, Share};
    use super::super::config::Role;
    use super::super::text::Refusal;
    use super::*;

    const fn refused(refusal: Refusal) -> Received {
        Received::Refused(refusal)
    }

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
        assert_eq!(reader.finish(), refused(Refusal::TooLong));
        let mut lost = DataReader::new(&config);
        lost.read(b"abcdef");
        assert!(lost.take_piece().is_some());
        lost.lose();
        assert!(lost.read(b"ghijklm\r\n.\r\n").1 && lost.take_piece().is_none());
        assert_eq!(lost.finish(), refused(Refusal::NoRoom));
    }

    #[test]
    fn a_piece_counts_until_the_host_has_stored_it() {
        let budget = MessageBudget::new(1 << 20);
        let config =
            Config { piece_bytes: 4, budget: Some(budget.clone()), ..Config::new("mx.example", Role::Inbound) };
        let mut reader = DataReader::new(&config);
        reader.read(b"abcdef");
        let piece = reader.take_piece().unwrap();
        assert!(budget.used() >= piece.capacity());
        reader.read(b"");
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_so_even_without_room() {
        let budget = Some(MessageBudget::new(10));
        let config = Config { max_message_bytes: 12, budget, ..Config::new("mx.example", Role::Inbound) };
        for (text, expected) in
            [("0123456789\r\n", refused(Refusal::NoRoom)), ("0123456789a\r\n", refused(Refusal::TooLong))]
        {
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
                assert_eq!(read_all(text.as_bytes(), chunk), Some(refused(Refusal::BareLineEnd)), "{text:?}");
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
            assert_eq!(read_all(too_long.as_bytes(), chunk), Some(refused(Refusal::TooLong)));
        }
    }

    /// The same without a state machine: cut at the first CRLF.CRLF, then inspect the lines.
    fn expected(text: &str) -> Received {
        let text = format!("\r\n{text}");
        let end = text.find("\r\n.\r\n").expect("the text has an end");
        let lines: Vec<&str> = text[..end].split("\r\n").skip(1).collect();
        if lines.iter().any(|line| line.contains(['\r', '\n'])) {
            return refused(Refusal::BareLineEnd);
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
