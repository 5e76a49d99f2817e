//! Moves long strings of a JSON text to a file while it arrives, so that a message with large attachments is never
//! completely in memory.
//!
//! A [`StringSplitter`] only recognizes where strings start and end. Its output is a JSON text with a placeholder for each long
//! string. `serde_json` parses this text, and also the long strings in pieces, so escapes and errors are handled by the
//! same rules for strings of any length.

use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use mailapi_model::{Blob, Entropy};
use serde::Deserialize;
use serde_json::Value;

use crate::bounded_json::{self, Refused};
use crate::byte_budget::{BytePermit, Full};
use crate::settings::HttpSettings;

/// Splits a JSON text that arrives in pieces.
pub(crate) struct StringSplitter<W> {
    /// The text with placeholders.
    text: Vec<u8>,
    /// File of the unescaped long strings in UTF-8, one after the other.
    aside: W,
    /// Number of bytes in the file.
    put: usize,
    /// Position of each long string in `aside`.
    strings: Vec<Range<usize>>,
    /// Positions where `text` is shorter than the original, in order.
    gaps: Vec<Gap>,
    /// Prefix of every placeholder.
    mark: String,
    /// Maximum length of strings that stay in the text, in bytes.
    max: usize,
    state: State,
}

/// `bytes` bytes were removed just before offset `at`.
struct Gap {
    at: usize,
    bytes: usize,
}

#[derive(Clone, Copy)]
enum State {
    /// Between strings.
    Outside,
    Inside(Literal),
    /// After a string with an error. This many more bytes are kept, so that the parser can report it.
    Broken(usize),
}

/// An unfinished string.
#[derive(Clone, Copy)]
struct Literal {
    /// Start in the text, after the quote.
    start: usize,
    /// Number of its original bytes that were moved to the file.
    taken: usize,
    /// Start of its content in the file.
    from: usize,
    /// Start of its last two escapes in the text.
    escapes: [Option<usize>; 2],
    /// The next byte belongs to the last escape.
    escaped: bool,
}

/// A part of a string, borrowed if it has no escape.
#[derive(Deserialize)]
struct Piece<'a>(#[serde(borrow)] Cow<'a, str>);

/// `\uXXXX`.
const ESCAPE: usize = 6;
/// After this much text, shorter strings are moved too, because a message may have hundreds of small attachments.
const MUCH_TEXT: usize = 512 * 1024;
const LEAST: usize = HttpSettings::LEAST_LONG_STRING_BYTES;
/// Enough text to report an error in a string, and longer than a placeholder.
const CONTEXT: usize = 64;

impl<W: Write> StringSplitter<W> {
    /// Keeps strings of up to `max` bytes (but at least some dozens) in the text, and moves longer ones to `aside`. The
    /// placeholders are random, so that no client can write one.
    pub(crate) fn new(max: usize, entropy: &dyn Entropy, aside: W) -> Self {
        let mut mark = [0; 16];
        entropy.fill(&mut mark);
        Self {
            text: Vec::new(),
            aside,
            put: 0,
            strings: Vec::new(),
            gaps: Vec::new(),
            mark: format!("{:032x}:", u128::from_be_bytes(mark)),
            max: max.max(CONTEXT),
            state: State::Outside,
        }
    }

    /// Where the long strings go.
    pub(crate) const fn aside(&self) -> &W {
        &self.aside
    }

    /// Bytes of the text in memory.
    pub(crate) fn kept(&self) -> usize {
        self.text.len()
    }

    /// Adds the next piece. Blocks on `aside`.
    ///
    /// # Errors
    /// Write errors of `aside`.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            bytes = match self.state {
                State::Outside => self.outside(bytes),
                State::Inside(literal) => self.inside(literal, bytes)?,
                State::Broken(more) => {
                    let shown = more.min(bytes.len());
                    self.text.extend_from_slice(&bytes[..shown]);
                    self.state = State::Broken(more - shown);
                    return Ok(());
                }
            };
        }
        Ok(())
    }

    fn outside<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let quote = bytes.iter().position(|byte| *byte == b'"');
        let (before, rest) = bytes.split_at(quote.map_or(bytes.len(), |at| at + 1));
        self.text.extend_from_slice(before);
        if quote.is_some() {
            let start = self.text.len();
            self.state = State::Inside(Literal { start, taken: 0, from: self.put, escapes: [None; 2], escaped: false });
        }
        rest
    }

    fn inside<'a>(&mut self, mut literal: Literal, bytes: &'a [u8]) -> io::Result<&'a [u8]> {
        let max = if literal.start > MUCH_TEXT { self.max.min(LEAST) } else { self.max };
        let room = max.saturating_sub(self.text.len() - literal.start).clamp(1, bytes.len());
        let special = match literal.escaped {
            true => None,
            false => bytes[..room].iter().position(|byte| matches!(byte, b'"' | b'\\')),
        };
        let through = match special {
            _ if literal.escaped => 1,
            Some(at) if bytes[at] == b'"' => {
                self.text.extend_from_slice(&bytes[..at]);
                self.close(literal)?;
                return Ok(&bytes[at + 1..]);
            }
            Some(at) => {
                literal.escapes = [literal.escapes[1], Some(self.text.len() + at)];
                at + 1
            }
            None => room,
        };
        literal.escaped = special.is_some();
        self.text.extend_from_slice(&bytes[..through]);
        self.state = State::Inside(literal);
        if self.text.len() - literal.start >= max {
            self.put_aside(literal, literal.cut(&self.text))?;
        }
        Ok(&bytes[through..])
    }

    /// Handles the end of a string.
    fn close(&mut self, literal: Literal) -> io::Result<()> {
        if literal.taken == 0 {
            self.text.push(b'"');
            self.state = State::Outside;
            return Ok(());
        }
        let Some(literal) = self.put_aside(literal, self.text.len())? else {
            self.text.push(b'"');
            return Ok(());
        };
        let name = format!("{}{}", self.mark, self.strings.len());
        self.strings.push(literal.from..self.put);
        self.text.extend_from_slice(name.as_bytes());
        self.text.push(b'"');
        // A long string is longer than any placeholder.
        self.gaps.push(Gap { at: self.text.len(), bytes: literal.taken.saturating_sub(name.len()) });
        self.state = State::Outside;
        Ok(())
    }

    /// Moves a string from its start to `cut` to the file, if it is valid.
    fn put_aside(&mut self, mut literal: Literal, cut: usize) -> io::Result<Option<Literal>> {
        let behind = self.text.split_off(cut);
        self.text.push(b'"');
        let read = match serde_json::from_slice(&self.text[literal.start - 1..]) {
            Ok(Piece(content)) => {
                self.aside.write_all(content.as_bytes())?;
                self.put += content.len();
                true
            }
            Err(_) => false,
        };
        if read {
            self.text.truncate(literal.start);
            literal.take(cut);
            self.state = State::Inside(literal);
        } else {
            self.text.pop();
            self.gaps.push(literal.gap());
            self.state = State::Broken(CONTEXT);
        }
        self.text.extend_from_slice(&behind);
        Ok(read.then_some(literal))
    }

    /// Returns the parsed text with placeholders, and the long strings, which `keep` creates from `aside`.
    ///
    /// # Errors
    /// `Err` if writing the long strings failed; an inner [`Mistake`] if the text is not JSON.
    pub(crate) fn finish(
        mut self,
        keep: impl FnOnce(W) -> io::Result<Blob>,
    ) -> io::Result<Result<(Value, LongStrings), Mistake>> {
        match self.state {
            State::Outside => {}
            State::Inside(mut literal) => {
                // A part of the string must stay in the text.
                if literal.taken > 0 {
                    self.text.insert(literal.start, b'x');
                    literal.taken -= 1;
                }
                self.gaps.push(literal.gap());
            }
            // UTF-8 is validated only at the end of a string.
            State::Broken(_) => self.text.push(b'"'),
        }
        let value = match bounded_json::read(&self.text) {
            Ok(value) => value,
            Err((error, refused)) => return Ok(Err(Mistake::of(&error, refused, &self.text, &self.gaps))),
        };
        // Frees the text, because only the value is needed.
        self.text = Vec::new();
        let bytes = keep(self.aside)?;
        let (strings, mark) = (self.strings, self.mark);
        Ok(Ok((value, LongStrings { bytes, strings, mark, memory: None, lost: OnceLock::new() })))
    }
}

impl Literal {
    /// Position near the end of `text` where the string can be cut between characters and escapes.
    fn cut(&self, text: &[u8]) -> usize {
        let end = text.len();
        let [before, last] = self.escapes;
        if let Some(last) = last.filter(|last| end - last < 2 * ESCAPE) {
            let pair = before.filter(|before| before + ESCAPE == last && is_high_surrogate(&text[*before..]));
            return pair.unwrap_or(last);
        }
        let continued = text.iter().rev().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
        let lead = end - continued - 1;
        if text[lead] >= 0xC0 { lead } else { end }
    }

    /// Records how much of the string is missing in the text. An error can also be at the quote before it.
    const fn gap(&self) -> Gap {
        Gap { at: self.start + 1, bytes: self.taken }
    }

    /// Removes the text of the string before `cut`.
    fn take(&mut self, cut: usize) {
        let gone = cut - self.start;
        self.taken += gone;
        self.escapes = self.escapes.map(|at| at.filter(|at| *at >= cut).map(|at| at - gone));
    }
}

/// Whether an escape is the first half of a surrogate pair (RFC 8259 section 7).
fn is_high_surrogate(escape: &[u8]) -> bool {
    matches!(escape, [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', ..])
}

/// Position of a syntax error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// The text ends too early.
    pub(crate) too_short: bool,
    /// Rejected for this reason, although the text may be valid JSON.
    pub(crate) refused: Option<Refused>,
    /// The first line is 1.
    pub(crate) line: usize,
    /// In bytes.
    pub(crate) column: usize,
}

impl Mistake {
    fn of(error: &serde_json::Error, refused: Option<Refused>, text: &[u8], gaps: &[Gap]) -> Self {
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let begin: usize = lines.take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
        let seen = begin + 1..=begin + error.column();
        let missing: usize = gaps.iter().filter(|gap| seen.contains(&gap.at)).map(|gap| gap.bytes).sum();
        Self { column: error.column() + missing, ..Self::from((error, refused)) }
    }
}

impl From<(&serde_json::Error, Option<Refused>)> for Mistake {
    fn from((error, refused): (&serde_json::Error, Option<Refused>)) -> Self {
        Self { too_short: error.is_eof(), refused, line: error.line(), column: error.column() }
    }
}

/// The long strings of a text.
#[derive(Debug, Default)]
pub(crate) struct LongStrings {
    bytes: Blob,
    strings: Vec<Range<usize>>,
    mark: String,
    /// Memory held for strings that were read back.
    memory: Option<Arc<Mutex<BytePermit>>>,
    /// The first read error, if any.
    lost: OnceLock<io::Error>,
}

impl LongStrings {
    /// Bytes of memory for each byte that is read back: the string, and the message composed from it.
    const MEMORY_FOR_EACH: usize = 2;

    /// Holds memory for each string that is read back.
    pub(crate) fn with_memory(self, memory: Arc<Mutex<BytePermit>>) -> Self {
        Self { memory: Some(memory), ..self }
    }

    fn load(&self, bytes: &Blob) -> io::Result<String> {
        if let Some(memory) = &self.memory {
            let bytes = bytes.len().saturating_mul(Self::MEMORY_FOR_EACH);
            let taken = memory.lock().unwrap_or_else(PoisonError::into_inner).grow(bytes);
            taken.map_err(|Full| io::Error::new(io::ErrorKind::OutOfMemory, "other requests take all the memory"))?;
        }
        String::from_utf8(bytes.to_bytes()?.into()).map_err(io::Error::other)
    }

    /// The string of a placeholder, if `name` is one.
    pub(crate) fn get(&self, name: &str) -> Option<Blob> {
        if self.strings.is_empty() {
            return None;
        }
        let number: usize = name.strip_prefix(&self.mark)?.parse().ok()?;
        Some(self.bytes.slice(self.strings.get(number)?.clone()))
    }

    /// `text`, or the string if it is a placeholder. May block.
    pub(crate) fn read(&self, text: String) -> String {
        let Some(bytes) = self.get(&text) else { return text };
        self.load(&bytes).unwrap_or_else(|error| {
            // Only the first error is reported.
            let _ = self.lost.set(error);
            String::new()
        })
    }

    /// The first read error, if any.
    pub(crate) fn lost(&self) -> Option<io::Error> {
        self.lost.get().map(|error| io::Error::new(error.kind(), error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use mailapi_model::TokenId;
    use mailapi_testkit::SeededEntropy;
    use proptest::prelude::*;
    use proptest::sample::{Index, select};
    use serde_json::Map;

    use super::*;
    use crate::byte_budget::{Share, byte_budget};

    type Read = Result<Value, Mistake>;

    /// Splits a text in pieces of `size` and puts the strings back; returns the value and the length of the kept text.
    fn split(text: &[u8], max: usize, size: usize) -> (Read, usize) {
        let mut splitter = StringSplitter::new(max, &SeededEntropy::default(), Vec::new());
        for piece in text.chunks(size) {
            splitter.take(piece).unwrap();
        }
        let through = splitter.text.len();
        let read = splitter.finish(|aside| Ok(aside.into())).unwrap();
        (read.map(|(value, strings)| whole(value, &strings)), through)
    }

    fn whole(value: Value, strings: &LongStrings) -> Value {
        match value {
            Value::String(text) => Value::String(strings.read(text)),
            Value::Array(items) => items.into_iter().map(|item| whole(item, strings)).collect(),
            Value::Object(map) => {
                let members = map.into_iter().map(|(name, value)| (strings.read(name), whole(value, strings)));
                Value::Object(members.collect::<Map<_, _>>())
            }
            other => other,
        }
    }

    fn at_once(text: &[u8]) -> Read {
        bounded_json::read(text).map_err(|(error, refused)| Mistake::from((&error, refused)))
    }

    #[test]
    fn errors_around_long_strings_have_their_position() {
        let long = "x".repeat(1000);
        for text in [
            format!("{{\"a\":,\"b\":\"{long}\"}}"),
            format!("{{\"a\":\n\"{long}\\q{long}\"}}"),
            format!("{{\"a\":\"{long}\\ud800{long}\"}}"),
            format!("{{\"a\":\"{long}\n{long}\"}}"),
            format!("{{\"a\":\"{long}\" \"b\"}}"),
            format!("{{\"a\":\"{long}\",\n \"b\":\"{long}\",}}"),
            format!("{{\"a\":\"{long}"),
            format!("{{\"a\":\"{long}\""),
            format!("{{1 \"{long}\"}}"),
            format!("\"{long}\"\""),
        ] {
            let expected = at_once(text.as_bytes());
            assert!(expected.is_err(), "{text}");
            assert_eq!(split(text.as_bytes(), 100, 7).0, expected, "{text}");
        }
    }

    #[test]
    fn a_long_string_is_read_back_where_there_is_memory() {
        let long = "x".repeat(1000);
        let mut splitter = StringSplitter::new(100, &SeededEntropy::default(), Vec::new());
        splitter.take(format!("[\"{long}\",\"{long}\"]").as_bytes()).unwrap();
        let (value, strings) = splitter.finish(|aside| Ok(aside.into())).unwrap().unwrap();
        let room = byte_budget(4000);
        let strings = strings.with_memory(Arc::new(Mutex::new(room.hold(Share::NoCaller))));
        let name = |at: usize| value[at].as_str().unwrap().to_owned();
        assert_eq!(strings.read(name(0)), long);
        let mut other = room.hold(Share::NoCaller);
        assert_eq!((other.grow(1), strings.lost().is_none()), (Err(Full), true), "half of the room is in use");
        let mut other = room.hold(Share::Token(TokenId(1)));
        assert_eq!((other.grow(1000), strings.read(name(1))), (Ok(()), String::new()));
        assert_eq!(strings.lost().unwrap().kind(), io::ErrorKind::OutOfMemory);
    }

    #[test]
    fn a_text_with_long_strings_leaves_little_behind() {
        let long = "x\\n☃\\ud83d\\ude00".repeat(10_000);
        let text = format!("{{\"{long}\":[\"{long}\",\"short\"],\"b\":\"{long}\"}}");
        let (read, through) = split(text.as_bytes(), 500, 4096);
        assert_eq!(read, at_once(text.as_bytes()));
        assert!(through < 500, "{through}");
    }

    #[test]
    fn no_text_can_write_a_name() {
        let name = |splitter: &StringSplitter<Vec<u8>>| format!("{}0", splitter.mark);
        let guess = name(&StringSplitter::new(64, &SeededEntropy::new(2), Vec::new()));
        let text = format!("[\"{guess}\",\"{}\"]", "secret".repeat(100));
        assert_eq!(split(text.as_bytes(), 64, 10).0, at_once(text.as_bytes()));
    }

    #[test]
    fn strings_that_cannot_be_stored_or_read_are_reported() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let text = format!("\"{}\"", "x".repeat(1000));
        let mut splitter = StringSplitter::new(64, &SeededEntropy::default(), Full);
        assert_eq!(splitter.take(text.as_bytes()).unwrap_err().kind(), io::ErrorKind::StorageFull);

        let mut splitter = StringSplitter::new(64, &SeededEntropy::default(), Vec::new());
        splitter.take(text.as_bytes()).unwrap();
        let (value, strings) = splitter.finish(|_| Ok(vec![0xff; 1000].into())).unwrap().unwrap();
        assert_eq!(strings.read(value.as_str().unwrap().to_owned()), "");
        assert!(strings.lost().is_some());
    }

    fn string() -> impl Strategy<Value = Vec<u8>> {
        let good = select(vec![
            "a",
            "bcd",
            " ",
            "é",
            "☃",
            "😀",
            "\\n",
            "\\\\",
            "\\\"",
            "\\/",
            "\\u00e9",
            "\\ud83d\\ude00",
            "\\uD83D\\uDE00",
        ]);
        let bad = select(vec![
            &b"\\ud800"[..],
            b"\\udc00",
            b"\\q",
            b"\\u12",
            b"\x01",
            b"\n",
            b"\xff",
            b"\xe2\x98",
            b"\x98",
            b"\\",
            b"\"",
        ]);
        let part = prop_oneof![
            60 => good.prop_map(|part| part.as_bytes().to_vec()),
            10 => (0_usize..200).prop_map(|length| vec![b'x'; length]),
            1 => bad.prop_map(<[u8]>::to_vec),
        ];
        prop::collection::vec(part, 0..80).prop_map(|parts| parts.concat())
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let token = prop_oneof![
            string().prop_map(|content| [b"\"", &content[..], b"\""].concat()),
            string().prop_map(|content| [b"{\"", &content[..], b"\":"].concat()),
            select(vec!["{", "}", "[", "]", ",", ":", " ", "\n", "1", "null", "x"])
                .prop_map(|it| it.as_bytes().to_vec()),
        ];
        let strings = prop::collection::vec((string(), string()), 0..6).prop_map(|members| {
            let member = |(name, value): &(Vec<u8>, Vec<u8>)| [b"\"", &name[..], b"\": \"", &value[..], b"\""].concat();
            let members: Vec<Vec<u8>> = members.iter().map(member).collect();
            [b"{", &members.join(&b",\n"[..])[..], b"}"].concat()
        });
        prop_oneof![2 => strings, 1 => prop::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat())]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn any_cut_and_any_long_string_gives_the_same_value(
            text in text(),
            change in prop::option::weighted(0.3, (any::<Index>(), any::<u8>())),
            cut in prop::option::weighted(0.2, any::<Index>()),
            (max, size) in (64_usize..200, 1_usize..300),
        ) {
            let mut text = text;
            if let (Some((at, byte)), false) = (change, text.is_empty()) {
                let at = at.index(text.len());
                text[at] = byte;
            }
            if let Some(at) = cut {
                text.truncate(at.index(text.len() + 1));
            }
            let (read, expected) = (split(&text, max, size).0, at_once(&text));
            if std::str::from_utf8(&text).is_ok() {
                prop_assert_eq!(read, expected, "{}", String::from_utf8_lossy(&text));
            } else {
                // The position of such an error is approximate.
                prop_assert_eq!(read.ok(), expected.ok(), "{}", String::from_utf8_lossy(&text));
            }
        }
    }
}
