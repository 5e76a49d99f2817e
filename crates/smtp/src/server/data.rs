//! The text after DATA: where it ends, and what of it is kept.
//!
//! Only CRLF "." CRLF ends it (RFC 5321 section 4.1.1.4). A server that also accepts other line ends there,
//! behind a relay that does not, takes for commands what the relay saw as text ("SMTP smuggling"). So a
//! bare CR or LF never ends anything, and a message that holds one is not taken (RFC 5321 section 2.3.8).

/// What became of the text once its end was seen.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// The message, dot-unstuffed, every line ending in CRLF.
    Message(Vec<u8>),
    /// A CR or LF stood alone somewhere.
    BareLineEnd,
    /// It was longer than the limit.
    TooLong,
}

/// Where in a line the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    LineStart,
    /// Behind a dot at the start of a line, which is dropped.
    Dot,
    /// Behind that dot and a CR.
    DotCr,
    InLine,
    Cr,
}

/// Takes the text in pieces of any size.
pub(super) struct DataReader {
    at: At,
    body: Vec<u8>,
    max_bytes: usize,
    too_long: bool,
    bare_line_end: bool,
}

impl DataReader {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { at: At::LineStart, body: Vec::new(), max_bytes, too_long: false, bare_line_end: false }
    }

    /// Reads on. The answer is how many bytes belong to the text, and whether its end was among them;
    /// what follows the end are commands again.
    pub(super) fn read(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut used = 0;
        while used < bytes.len() {
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
        if self.bare_line_end || self.too_long {
            return;
        }
        if self.body.len() + bytes.len() > self.max_bytes {
            self.too_long = true;
            self.body = Vec::new();
        } else {
            self.body.extend_from_slice(bytes);
        }
    }

    fn refuse_line_end(&mut self) {
        self.bare_line_end = true;
        self.body = Vec::new();
    }

    /// What was read. A bare line end counts more than the length, whatever came first.
    pub(super) fn finish(self) -> Received {
        if self.bare_line_end {
            Received::BareLineEnd
        } else if self.too_long {
            Received::TooLong
        } else {
            Received::Message(self.body)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(text: &[u8], chunk: usize) -> Option<Received> {
        let mut reader = DataReader::new(40);
        let mut total = 0;
        for piece in text.chunks(chunk) {
            let (used, ended) = reader.read(piece);
            total += used;
            if ended {
                assert_eq!(total, text.len(), "ended before {text:?} was over");
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
                assert_eq!(read, Some(Received::Message(body.as_bytes().to_vec())));
            }
        }
    }

    #[test]
    fn the_limit_counts_the_unstuffed_bytes() {
        let fits = format!("..{}\r\n.\r\n", "x".repeat(37));
        let too_long = format!("..{}\r\n.\r\n", "x".repeat(38));
        for chunk in [1, 7, 64] {
            assert!(matches!(read_all(fits.as_bytes(), chunk), Some(Received::Message(_))));
            assert_eq!(read_all(too_long.as_bytes(), chunk), Some(Received::TooLong));
        }
    }

    /// The same, written down without a state machine: cut at the first CRLF.CRLF, then look at the lines.
    fn expected(text: &str) -> Received {
        let text = format!("\r\n{text}");
        let end = text.find("\r\n.\r\n").expect("the text has an end");
        let lines: Vec<&str> = text[..end].split("\r\n").skip(1).collect();
        if lines.iter().any(|line| line.contains(['\r', '\n'])) {
            return Received::BareLineEnd;
        }
        let unstuffed = |line: &&str| format!("{}\r\n", line.strip_prefix('.').unwrap_or(line));
        Received::Message(lines.iter().map(unstuffed).collect::<String>().into_bytes())
    }

    proptest! {
        #[test]
        fn it_reads_what_the_definition_says(body in "(\r\n|\r|\n|\\.|\r\n\\.|x|\0){0,12}", chunk in 1_usize..9) {
            let text = format!("{body}\r\n.\r\n");
            let mut reader = DataReader::new(1000);
            let ended = text.as_bytes().chunks(chunk).any(|piece| reader.read(piece).1);
            prop_assert!(ended);
            prop_assert_eq!(reader.finish(), expected(&text));
        }
    }
}
