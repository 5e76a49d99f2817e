//! The text that comes in chunks (BDAT, RFC 3030).
//!
//! The length of a chunk says where it ends, so no text can be taken for a command. The lines of the text are those of
//! DATA without the dots: BINARYMIME is not offered, so a bare CR or LF is refused too.

use super::config::Config;
use super::text::{Received, Refusal, Text};

/// A message in chunks.
pub(super) struct ChunkReader {
    text: Text,
    /// Number of bytes of the present chunk that are still to come.
    left: u64,
    /// The present chunk.
    chunk: Chunk,
    /// The last byte was CR, which needs LF.
    after_cr: bool,
    /// The text so far is empty, or ends with CRLF.
    is_line_start: bool,
}

impl ChunkReader {
    pub(super) fn new(config: &Config) -> Self {
        Self { text: Text::new(config), left: 0, chunk: Chunk::default(), after_cr: false, is_line_start: true }
    }

    /// Starts the next chunk.
    pub(super) fn begin(&mut self, chunk: Chunk) {
        (self.left, self.chunk) = (chunk.bytes, chunk);
    }

    /// Processes the next bytes. Returns how many of them belong to the chunk.
    pub(super) fn read(&mut self, bytes: &[u8]) -> usize {
        self.text.settle();
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        let mut rest = &bytes[..most];
        while let Some(byte) = rest.first() {
            if std::mem::take(&mut self.after_cr) {
                if *byte == b'\n' {
                    self.text.keep(b"\r\n");
                    self.is_line_start = true;
                    rest = &rest[1..];
                    continue;
                }
                self.text.refuse_line_end();
            }
            let run = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(rest.len());
            if run > 0 {
                self.text.keep(&rest[..run]);
                self.is_line_start = false;
            }
            match rest.get(run) {
                Some(b'\r') => self.after_cr = true,
                Some(_) => self.text.refuse_line_end(),
                None => break,
            }
            rest = &rest[run + 1..];
        }
        self.left -= most as u64;
        most
    }

    /// Returns whether all bytes of the present chunk were read.
    pub(super) fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// Returns the present chunk.
    pub(super) fn chunk(&self) -> Chunk {
        self.chunk
    }

    /// Returns the number of bytes of the message so far.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns the buffered text once it is longer than a piece.
    pub(super) fn take_piece(&mut self) -> Option<Vec<u8>> {
        self.text.take_piece()
    }

    /// Marks the message as lost: the host could not keep a piece.
    pub(super) fn lose(&mut self) {
        self.text.lose();
    }

    /// Returns why there will be no message, if that is certain.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.text.refusal()
    }

    /// Returns the message after the last chunk. A missing CRLF at its end is added.
    pub(super) fn finish(mut self) -> Received {
        if self.after_cr {
            self.text.refuse_line_end();
        }
        if !self.is_line_start {
            self.text.keep(b"\r\n");
        }
        self.text.finish()
    }
}

/// The argument of BDAT.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Number of bytes after the command.
    pub(super) bytes: u64,
    /// Whether the message ends with them.
    pub(super) is_last: bool,
}

impl Chunk {
    /// Parses the argument; `None` if it is none. The bytes that follow are then unknown.
    pub(super) fn parse(argument: &str) -> Option<Self> {
        let (bytes, is_last) = match argument.split_once(' ') {
            None => (argument, false),
            Some((bytes, end)) => (bytes, end.eq_ignore_ascii_case("LAST").then_some(true)?),
        };
        // `parse` alone would accept a sign.
        let digits = bytes.bytes().all(|byte| byte.is_ascii_digit()).then_some(bytes)?;
        Some(Self { bytes: digits.parse().ok()?, is_last })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::budget::Share;
    use super::super::config::Role;
    use super::*;

    #[test]
    fn the_argument_is_a_length_and_the_word_last() {
        let chunk = |bytes, is_last| Some(Chunk { bytes, is_last });
        assert_eq!(Chunk::parse("0"), chunk(0, false));
        assert_eq!(Chunk::parse("86 LAST"), chunk(86, true));
        assert_eq!(Chunk::parse("007 last"), chunk(7, true));
        assert_eq!(Chunk::parse("18446744073709551615"), chunk(u64::MAX, false));
        for wrong in [
            "",
            " ",
            "LAST",
            "-1",
            "+1",
            "1.0",
            "0x1",
            " 1",
            "1  LAST",
            "1 LAST ",
            "1 FIRST",
            "1LAST",
            "18446744073709551616",
        ] {
            assert_eq!(Chunk::parse(wrong), None, "{wrong:?}");
        }
    }

    /// Reads chunks of a text in pieces.
    fn read(chunks: &[&str], piece: usize) -> Received {
        let config = Config { max_message_bytes: 20, ..Config::new("mx.example", Role::Inbound) };
        let mut reader = ChunkReader::new(&config);
        for (number, chunk) in chunks.iter().enumerate() {
            reader.begin(Chunk { bytes: chunk.len() as u64, is_last: number + 1 == chunks.len() });
            let mut rest = chunk.as_bytes();
            while !rest.is_empty() {
                // What follows a chunk is not a part of it.
                let bytes =
                    [&rest[..piece.min(rest.len())], if rest.len() <= piece { b"QUIT\r\n" } else { b"" }].concat();
                rest = &rest[reader.read(&bytes)..];
            }
            assert!(reader.is_complete() && reader.read(b"QUIT\r\n") == 0);
        }
        reader.finish()
    }

    proptest! {
        #[test]
        fn it_reads_what_the_definition_says(
            chunks in prop::collection::vec("(\r\n|\r|\n|\\.|\r\n\\.\r\n|x|\0){0,6}", 1..5),
            piece in 1_usize..9,
        ) {
            let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
            let text = chunks.concat();
            let whole = if text.is_empty() || text.ends_with("\r\n") { text } else { format!("{text}\r\n") };
            let expected = if whole.replace("\r\n", "").contains(['\r', '\n']) {
                Received::Refused(Refusal::BareLineEnd)
            } else if whole.len() > 20 {
                Received::Refused(Refusal::TooLong)
            } else {
                Received::Message(whole.into_bytes(), Share::default())
            };
            prop_assert_eq!(read(&chunks, piece), expected);
        }
    }
}
