//! Content-Transfer-Encodings (RFC 2045 section 6), decoded as a stream.
//!
//! Each encoding has a state machine that processes single bytes (`take`), and a fast path for almost all
//! input: pure base64 lines, and literal runs of quoted-printable. Property tests check that both agree.

use std::borrow::Cow;
use std::ops::Range;

use base64::engine::general_purpose::NO_PAD;

use super::parameters;
use super::source::Source;

/// The transfer encoding of a part. Unknown names count as [`TransferEncoding::Identity`], so that the reader
/// sees the raw content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransferEncoding {
    /// 7bit, 8bit and binary: not encoded.
    #[default]
    Identity,
    /// RFC 2045 section 6.8.
    Base64,
    /// RFC 2045 section 6.7.
    QuotedPrintable,
}

impl TransferEncoding {
    /// Returns the encoding with this Content-Transfer-Encoding name. Comments are part of the syntax (RFC 2045 section
    /// 3); parameters, quotes and other spellings are not, but occur.
    #[must_use]
    pub fn named(name: &str) -> Self {
        // Almost all names are plain words.
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let name = name.trim();
        let written = if name.bytes().all(is_word) { Cow::Borrowed(name) } else { parameters::written(name).0.into() };
        let name = written.trim_matches(|c: char| c == '"' || c.is_whitespace());
        match name.to_ascii_lowercase().replace('_', "-").as_str() {
            "base64" | "base-64" | "b64" => Self::Base64,
            "quoted-printable" | "quotedprintable" | "quoted printable" => Self::QuotedPrintable,
            _ => Self::Identity,
        }
    }
}

/// Decodes a part in chunks. The output does not depend on the chunk boundaries.
///
/// Decoding never fails: invalid base64 characters are skipped, missing padding is tolerated, and an equals
/// sign without a valid escape stays.
///
/// ```
/// use mailapi_backend::mime::{TransferDecoder, TransferEncoding};
///
/// let mut decoder = TransferDecoder::new(TransferEncoding::Base64);
/// let mut decoded = Vec::new();
/// decoder.push(b"aGV\r\nsb", &mut decoded);
/// decoder.push(b"G8=", &mut decoded);
/// decoder.finish(&mut decoded);
/// assert_eq!(decoded, b"hello");
/// ```
#[derive(Debug, Clone)]
pub struct TransferDecoder(State);

#[derive(Debug, Clone)]
enum State {
    Identity,
    Base64(Base64),
    QuotedPrintable(QuotedPrintable),
}

impl TransferDecoder {
    /// Returns a decoder for the start of a part.
    #[must_use]
    pub fn new(encoding: TransferEncoding) -> Self {
        Self(match encoding {
            TransferEncoding::Identity => State::Identity,
            TransferEncoding::Base64 => State::Base64(Base64::default()),
            TransferEncoding::QuotedPrintable => State::QuotedPrintable(QuotedPrintable::default()),
        })
    }

    /// Decodes the next chunk and appends the result.
    pub fn push(&mut self, encoded: &[u8], decoded: &mut Vec<u8>) {
        match &mut self.0 {
            State::Identity => decoded.extend_from_slice(encoded),
            State::Base64(state) => state.take_all(encoded, decoded),
            State::QuotedPrintable(state) => state.take_all(encoded, decoded),
        }
    }

    /// Appends bytes held back until the end of the part.
    pub fn finish(self, decoded: &mut Vec<u8>) {
        match self.0 {
            State::Identity => {}
            State::Base64(mut state) => state.end_of_quantum(decoded),
            State::QuotedPrintable(state) => state.finish(decoded),
        }
    }
}

/// Decodes a whole part.
#[must_use]
pub fn decode(encoding: TransferEncoding, encoded: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut decoder = TransferDecoder::new(encoding);
    decoder.push(encoded, &mut decoded);
    decoder.finish(&mut decoded);
    decoded
}

/// Returns the decoded size of a part without keeping its content.
pub(super) fn decoded_size<S: Source>(
    encoding: TransferEncoding,
    source: &mut S,
    encoded: Range<usize>,
) -> Result<u64, S::Error> {
    const CHUNK: usize = 16 * 1024;
    if encoding == TransferEncoding::Identity {
        return Ok(encoded.len() as u64);
    }
    let mut decoder = TransferDecoder::new(encoding);
    let mut scratch = Vec::with_capacity(CHUNK);
    let mut size = 0;
    for start in encoded.clone().step_by(CHUNK) {
        let chunk = source.get(start..encoded.end.min(start + CHUNK))?;
        decoder.push(&chunk, &mut scratch);
        size += scratch.len() as u64;
        scratch.clear();
    }
    decoder.finish(&mut scratch);
    Ok(size + scratch.len() as u64)
}

/// A partial quantum of four characters.
#[derive(Debug, Clone, Default)]
struct Base64 {
    bits: u32,
    characters: u8,
}

/// Marks invalid characters: no value has this bit.
const NO_VALUE: u8 = 0x80;

/// The value of each byte as a base64 character (RFC 4648 section 4).
const BASE64_VALUES: [u8; 256] = {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut values = [NO_VALUE; 256];
    let mut value = 0;
    while value < alphabet.len() {
        values[alphabet[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// Number of characters collected from several lines before decoding.
const GATHERED: usize = 4096;

/// The line end in mail (RFC 2045 section 2.1).
const LINE_END: &[u8] = b"\r\n";

impl Base64 {
    /// Decodes many lines at once, if they contain only base64 characters, as almost all do.
    fn take_all(&mut self, encoded: &[u8], decoded: &mut Vec<u8>) {
        let engine = engine();
        let (mut gathered, mut rest) = ([0; GATHERED], encoded);
        while let Some((&byte, after)) = rest.split_first() {
            // A chunk may start inside a quantum: complete it byte by byte.
            if self.characters != 0 {
                self.take(byte, decoded);
                rest = after;
                continue;
            }
            let length = gather(&mut rest, &mut gathered);
            // A partial quantum at the end waits for the next bytes.
            let (quanta, others) = gathered[..length].split_at(length & !3);
            if !decode_quanta(&engine, quanta, decoded) {
                quanta.iter().for_each(|&byte| self.take(byte, decoded));
            }
            others.iter().for_each(|&byte| self.take(byte, decoded));
        }
    }

    fn take(&mut self, byte: u8, decoded: &mut Vec<u8>) {
        // Padding ends a quantum, so that concatenated base64 texts decode too.
        if byte == b'=' {
            return self.end_of_quantum(decoded);
        }
        let value = BASE64_VALUES[usize::from(byte)];
        if value == NO_VALUE {
            return;
        }
        self.bits = self.bits << 6 | u32::from(value);
        self.characters += 1;
        if self.characters == 4 {
            decoded.extend_from_slice(&self.bits.to_be_bytes()[1..]);
            *self = Self::default();
        }
    }

    fn end_of_quantum(&mut self, decoded: &mut Vec<u8>) {
        let aligned = (self.bits << (6 * (4 - u32::from(self.characters)))).to_be_bytes();
        match self.characters {
            2 => decoded.push(aligned[1]),
            3 => decoded.extend_from_slice(&aligned[1..3]),
            // A single character has fewer bits than a byte.
            _ => {}
        }
        *self = Self::default();
    }
}

/// Returns the fastest decoder of the processor.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
fn engine() -> impl base64::Engine {
    base64::engine::Simd::standard(NO_PAD)
}

/// Returns the fastest decoder for other processors.
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon"))))]
fn engine() -> impl base64::Engine {
    base64::engine::GeneralPurpose::new(&base64::alphabet::STANDARD, NO_PAD)
}

/// Moves lines without their line ends from `rest` to `gathered` until it is full; returns the number of
/// bytes.
///
/// A line is assumed to be as long as the previous one if a line end follows there. An earlier line end
/// within it is then copied too, which is harmless: it is not a base64 character.
fn gather(rest: &mut &[u8], gathered: &mut [u8; GATHERED]) -> usize {
    let (mut length, mut line_length) = (0, 0);
    while length < GATHERED && !rest.is_empty() {
        let (window, _) = rest.split_at(rest.len().min(GATHERED - length));
        let like_the_last = window.split_at_checked(line_length).filter(|(_, after)| after.starts_with(LINE_END));
        let (line, taken) =
            like_the_last.map_or_else(|| line_of(window), |(line, _)| (line, line_length + LINE_END.len()));
        *rest = &rest[taken..];
        gathered[length..length + line.len()].copy_from_slice(line);
        (length, line_length) = (length + line.len(), line.len());
    }
    length
}

/// Returns the first line without its line end, and the number of bytes it occupies.
fn line_of(window: &[u8]) -> (&[u8], usize) {
    let end = memchr::memchr(b'\n', window);
    let line = &window[..end.unwrap_or(window.len())];
    (line.strip_suffix(b"\r").unwrap_or(line), end.map_or(window.len(), |end| end + 1))
}

/// Decodes whole quanta of valid characters. Otherwise returns false and decodes nothing.
fn decode_quanta(engine: &impl base64::Engine, quanta: &[u8], decoded: &mut Vec<u8>) -> bool {
    let start = decoded.len();
    decoded.resize(start + quanta.len() / 4 * 3, 0);
    let is_all = engine.decode_slice(quanta, &mut decoded[start..]).is_ok();
    if !is_all {
        decoded.truncate(start);
    }
    is_all
}

#[derive(Debug, Clone, Default)]
struct QuotedPrintable {
    at: At,
    /// Held-back white space. It is data if text follows on its line, and removed at the end of a line
    /// (RFC 2045 section 6.7 rule 3).
    spaces: Vec<u8>,
}

#[derive(Debug, Clone, Copy, Default)]
enum At {
    #[default]
    Text,
    CarriageReturn,
    Equals,
    FirstDigit(u8),
    SpaceAfterEquals,
    CarriageReturnAfterEquals,
}

impl QuotedPrintable {
    /// Longest run of held-back white space; longer runs count as data. Real encoders never write such lines,
    /// and memory stays bounded.
    const MAX_SPACES: usize = 1024;
    /// How far to search for the end of a literal run. Lines are shorter; without a limit, long white space
    /// would be searched repeatedly.
    const WINDOW: usize = 1024;

    /// Decodes literal runs, escapes and line ends as a whole, and everything else byte by byte.
    fn take_all(&mut self, encoded: &[u8], decoded: &mut Vec<u8>) {
        let mut rest = encoded;
        while let Some((&byte, after)) = rest.split_first() {
            let is_between = matches!(self.at, At::Text) && self.spaces.is_empty();
            let taken = if is_between { Self::take_whole(rest, decoded) } else { 0 };
            if taken == 0 {
                self.take(byte, decoded);
                rest = after;
            } else {
                rest = &rest[taken..];
            }
        }
    }

    /// Decodes the escape, line end or literal run at the start, if it is complete; returns its length.
    fn take_whole(rest: &[u8], decoded: &mut Vec<u8>) -> usize {
        match *rest {
            [b'=', b'\r', b'\n', ..] => 3,
            [b'=', high, low, ..] => match (hex_digit(high), hex_digit(low)) {
                (Some(high), Some(low)) => {
                    decoded.push(high << 4 | low);
                    3
                }
                _ => 0,
            },
            [b'\r', b'\n', ..] => {
                decoded.extend_from_slice(LINE_END);
                LINE_END.len()
            }
            _ => {
                let plain = Self::plain(rest);
                decoded.extend_from_slice(&rest[..plain]);
                plain
            }
        }
    }

    /// Returns the length of the literal run at the start of `rest`: up to the next equals sign or line end,
    /// without trailing white space, whose meaning is not yet known.
    fn plain(rest: &[u8]) -> usize {
        let window = &rest[..rest.len().min(Self::WINDOW)];
        let stretch = &window[..memchr::memchr2(b'=', b'\n', window).unwrap_or(window.len())];
        stretch.iter().rposition(|byte| !matches!(byte, b' ' | b'\t' | b'\r')).map_or(0, |last| last + 1)
    }

    fn take(&mut self, byte: u8, decoded: &mut Vec<u8>) {
        self.at = match (self.at, byte) {
            (At::Text, _) => self.text(byte, decoded),
            // A line end removes the white space before it (rule 3).
            (At::CarriageReturn, b'\n') => {
                self.spaces.clear();
                decoded.extend_from_slice(b"\r\n");
                At::Text
            }
            // A bare CR is data.
            (At::CarriageReturn, _) => {
                decoded.append(&mut self.spaces);
                decoded.push(b'\r');
                self.text(byte, decoded)
            }
            // A soft line break, possibly with white space after the equals sign.
            (At::Equals | At::SpaceAfterEquals | At::CarriageReturnAfterEquals, b'\n') => {
                self.spaces.clear();
                At::Text
            }
            (At::Equals | At::SpaceAfterEquals, b'\r') => At::CarriageReturnAfterEquals,
            (At::Equals, _) if hex_digit(byte).is_some() => At::FirstDigit(byte),
            (At::Equals | At::SpaceAfterEquals, b' ' | b'\t') if self.spaces.len() < Self::MAX_SPACES => {
                self.spaces.push(byte);
                At::SpaceAfterEquals
            }
            // Not an escape, so the equals sign is data.
            (At::Equals | At::SpaceAfterEquals, _) => {
                decoded.push(b'=');
                decoded.append(&mut self.spaces);
                self.text(byte, decoded)
            }
            // A bare CR also ends a soft line break.
            (At::CarriageReturnAfterEquals, _) => {
                self.spaces.clear();
                self.text(byte, decoded)
            }
            (At::FirstDigit(first), _) => self.second_digit(first, byte, decoded),
        };
    }

    fn second_digit(&mut self, first: u8, byte: u8, decoded: &mut Vec<u8>) -> At {
        match (hex_digit(first), hex_digit(byte)) {
            (Some(high), Some(low)) => {
                decoded.push(high << 4 | low);
                At::Text
            }
            _ => {
                decoded.extend_from_slice(&[b'=', first]);
                self.text(byte, decoded)
            }
        }
    }

    fn text(&mut self, byte: u8, decoded: &mut Vec<u8>) -> At {
        match byte {
            b' ' | b'\t' if self.spaces.len() < Self::MAX_SPACES => {
                self.spaces.push(byte);
                return At::Text;
            }
            b'\r' => return At::CarriageReturn,
            b'\n' => self.spaces.clear(),
            _ => decoded.append(&mut self.spaces),
        }
        if byte == b'=' {
            return At::Equals;
        }
        decoded.push(byte);
        At::Text
    }

    fn finish(self, decoded: &mut Vec<u8>) {
        match self.at {
            // The line end before a boundary belongs to the boundary, so a final equals sign is a soft line
            // break.
            At::Text | At::Equals | At::SpaceAfterEquals | At::CarriageReturnAfterEquals => {}
            At::CarriageReturn => decoded.push(b'\r'),
            At::FirstDigit(first) => decoded.extend_from_slice(&[b'=', first]),
        }
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use ::base64::Engine as _;
    use proptest::prelude::*;

    use super::super::limits::Limits;
    use super::super::source::Slice;
    use super::*;

    #[test]
    fn an_encoding_is_known_by_its_other_spellings() {
        for (names, expected) in [
            (["base64 (RFC 2045)", "BASE64;", "\"base64\"", "(x) Base-64 ; y=z"], TransferEncoding::Base64),
            (
                ["quoted-printable;", "Quoted_Printable", "quoted-printable (a (b))", "QUOTED-PRINTABLE "],
                TransferEncoding::QuotedPrintable,
            ),
            (["8bit", "7bit; base64", "x-uuencode", "(base64)"], TransferEncoding::Identity),
        ] {
            for name in names {
                assert_eq!(TransferEncoding::named(name), expected, "{name}");
            }
        }
    }

    fn base64(encoded: &str) -> Vec<u8> {
        decode(TransferEncoding::Base64, encoded.as_bytes())
    }

    fn quoted(encoded: &str) -> String {
        String::from_utf8(decode(TransferEncoding::QuotedPrintable, encoded.as_bytes())).unwrap()
    }

    #[test]
    fn damaged_base64_gives_what_is_left_of_it() {
        assert_eq!(base64("====!!\r\n"), b"");
        assert_eq!(base64("a"), b"");
        assert_eq!(base64("aGVsbG8"), b"hello");
        assert_eq!(base64("a G\r\nV*s b\0G8=\n"), b"hello");
        assert_eq!(base64("aGVs"), b"hel");
    }

    #[test]
    fn pieces_of_base64_that_were_joined_decode_one_after_the_other() {
        assert_eq!(base64("aA==\r\naQ=="), b"hi");
        assert_eq!(base64("aGVsbG8=aGVsbG8="), b"hellohello");
    }

    #[test]
    fn damaged_quoted_printable_stands_for_itself() {
        assert_eq!(quoted("a=zb=4g=="), "a=zb=4g=");
        assert_eq!(quoted("100= %"), "100= %");
        assert_eq!(quoted("cut=4"), "cut=4");
    }

    #[test]
    fn quoted_printable_line_ends_follow_the_rules() {
        assert_eq!(quoted("caf=C3=A9 =c3=a9"), "café é");
        assert_eq!(quoted("one=\r\n two=  \t\r\nthree=\nfour="), "one twothreefour");
        assert_eq!(quoted("a \t\r\nb  \nc \rd  "), "a\r\nb\nc \rd".trim_end());
    }

    proptest! {
        #[test]
        fn characters_among_others_decode_as_character_by_character(
            encoded in prop::collection::vec(prop_oneof![
                8 => b'A'..=b'Z', 1 => Just(b'='), 1 => Just(b'\n'), 1 => any::<u8>()
            ], 0..200),
        ) {
            let (mut state, mut decoded) = (Base64::default(), Vec::new());
            encoded.iter().for_each(|&byte| state.take(byte, &mut decoded));
            state.end_of_quantum(&mut decoded);
            prop_assert_eq!(decode(TransferEncoding::Base64, &encoded), decoded);
        }

        #[test]
        fn lines_of_base64_decode_as_character_by_character(
            bytes in prop::collection::vec(any::<u8>(), 0..9000),
            widths in prop::collection::vec(prop_oneof![3 => Just(76), 1 => 1_usize..100], 1..6),
            odd in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        ) {
            let mut encoded = ::base64::prelude::BASE64_STANDARD.encode(&bytes).into_bytes();
            if let (Some((at, byte)), false) = (odd, encoded.is_empty()) {
                let at = at.index(encoded.len());
                encoded[at] = byte;
            }
            let (mut lines, mut rest) = (Vec::new(), &encoded[..]);
            let mut widths = widths.into_iter().cycle();
            while !rest.is_empty() {
                let width = widths.next().unwrap_or(76);
                let (line, after) = rest.split_at(width.min(rest.len()));
                lines.extend([line, LINE_END].concat());
                rest = after;
            }
            let (mut state, mut decoded) = (Base64::default(), Vec::new());
            lines.iter().for_each(|&byte| state.take(byte, &mut decoded));
            state.end_of_quantum(&mut decoded);
            prop_assert_eq!(&decode(TransferEncoding::Base64, &lines), &decoded);
            prop_assert!(odd.is_some() || decoded == bytes);
        }

        #[test]
        fn stretches_of_quoted_printable_decode_as_byte_by_byte(
            encoded in prop::collection::vec(prop_oneof![
                8 => Just(vec![b'a']), 4 => Just(vec![b' ']), 1 => Just(vec![b'\t']), 1 => Just(vec![b'=']), 1 => Just(vec![b'\r']),
                1 => Just(vec![b'\n']), 1 => Just(vec![b' '; 700]), 1 => Just(b"\r\n".to_vec()), 1 => Just(b"=\r\n".to_vec()),
                1 => "=[0-9A-Fa-g]{2}".prop_map(String::into_bytes), 1 => any::<u8>().prop_map(|byte| vec![byte]),
            ], 0..60),
        ) {
            let encoded = encoded.concat();
            let (mut state, mut decoded) = (QuotedPrintable::default(), Vec::new());
            encoded.iter().for_each(|&byte| state.take(byte, &mut decoded));
            state.finish(&mut decoded);
            prop_assert_eq!(decode(TransferEncoding::QuotedPrintable, &encoded), decoded);
        }

        #[test]
        fn where_chunks_are_cut_makes_no_difference(
            encoded in prop::collection::vec(prop_oneof![
                Just(b'='), Just(b' '), Just(b'\r'), Just(b'\n'), Just(b'4'), Just(b'A'), any::<u8>()
            ], 0..200),
            cuts in prop::collection::vec(1_usize..9, 0..60),
        ) {
            for encoding in [TransferEncoding::Identity, TransferEncoding::Base64, TransferEncoding::QuotedPrintable] {
                let mut decoder = TransferDecoder::new(encoding);
                let (mut decoded, mut rest) = (Vec::new(), &encoded[..]);
                for &cut in &cuts {
                    let (chunk, after) = rest.split_at(cut.min(rest.len()));
                    decoder.push(chunk, &mut decoded);
                    rest = after;
                }
                decoder.push(rest, &mut decoded);
                decoder.finish(&mut decoded);
                prop_assert_eq!(&decoded, &decode(encoding, &encoded));
                let mut source = Slice::new(&encoded, &Limits::default());
                prop_assert_eq!(Ok(decoded.len() as u64), decoded_size(encoding, &mut source, 0..encoded.len()));
                prop_assert!(decoded.len() <= encoded.len());
            }
        }
    }
}
