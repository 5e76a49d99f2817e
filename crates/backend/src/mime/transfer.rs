//! Content-Transfer-Encodings (RFC 2045 section 6), decoded as the octets come.

/// How the octets of a part are written in the message. Unknown names count as [`TransferEncoding::Identity`]: the
/// reader then at least sees what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransferEncoding {
    /// 7bit, 8bit and binary: the octets themselves.
    #[default]
    Identity,
    /// RFC 2045 section 6.8.
    Base64,
    /// RFC 2045 section 6.7.
    QuotedPrintable,
}

impl TransferEncoding {
    /// The encoding that a Content-Transfer-Encoding header names.
    #[must_use]
    pub fn named(name: &str) -> Self {
        match name.trim().to_ascii_lowercase().as_str() {
            "base64" => Self::Base64,
            "quoted-printable" => Self::QuotedPrintable,
            _ => Self::Identity,
        }
    }
}

/// Decodes a part, one chunk after the other. What comes out never depends on where the chunks are cut.
///
/// Nothing is refused: what is no base64 is skipped, missing padding is made up for, and an equals sign that starts
/// no quoted-printable escape stands for itself.
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
    /// A decoder at the start of a part.
    #[must_use]
    pub fn new(encoding: TransferEncoding) -> Self {
        Self(match encoding {
            TransferEncoding::Identity => State::Identity,
            TransferEncoding::Base64 => State::Base64(Base64::default()),
            TransferEncoding::QuotedPrintable => State::QuotedPrintable(QuotedPrintable::default()),
        })
    }

    /// Takes the next encoded octets and appends what they decode to.
    pub fn push(&mut self, encoded: &[u8], decoded: &mut Vec<u8>) {
        match &mut self.0 {
            State::Identity => decoded.extend_from_slice(encoded),
            State::Base64(state) => state.take_all(encoded, decoded),
            State::QuotedPrintable(state) => encoded.iter().for_each(|&octet| state.take(octet, decoded)),
        }
    }

    /// Appends what was held back: the part has ended.
    pub fn finish(self, decoded: &mut Vec<u8>) {
        match self.0 {
            State::Identity => {}
            State::Base64(mut state) => state.end_of_quantum(decoded),
            State::QuotedPrintable(state) => state.finish(decoded),
        }
    }
}

/// All of a part at once.
#[must_use]
pub fn decode(encoding: TransferEncoding, encoded: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut decoder = TransferDecoder::new(encoding);
    decoder.push(encoded, &mut decoded);
    decoder.finish(&mut decoded);
    decoded
}

/// How many octets a part decodes to, without keeping them.
pub(super) fn decoded_size(encoding: TransferEncoding, encoded: &[u8]) -> u64 {
    const CHUNK: usize = 16 * 1024;
    if encoding == TransferEncoding::Identity {
        return encoded.len() as u64;
    }
    let mut decoder = TransferDecoder::new(encoding);
    let mut scratch = Vec::with_capacity(CHUNK);
    let mut size = 0;
    for chunk in encoded.chunks(CHUNK) {
        decoder.push(chunk, &mut scratch);
        size += scratch.len() as u64;
        scratch.clear();
    }
    decoder.finish(&mut scratch);
    size + scratch.len() as u64
}

/// The part of a quantum of four characters that has been seen.
#[derive(Debug, Clone, Default)]
struct Base64 {
    bits: u32,
    characters: u8,
}

/// What is no character of base64 has a bit that no value has.
const NO_VALUE: u8 = 0x80;

/// The value of each octet as a character of base64 (RFC 4648 section 4).
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

impl Base64 {
    /// Whole quanta at once wherever nothing stands between their characters, which is nearly everywhere.
    fn take_all(&mut self, encoded: &[u8], decoded: &mut Vec<u8>) {
        decoded.reserve(encoded.len() / 4 * 3 + 3);
        let mut rest = encoded;
        while let Some((&octet, after)) = rest.split_first() {
            if self.characters == 0 {
                let whole = whole_quanta(rest, decoded);
                if whole > 0 {
                    rest = &rest[whole..];
                    continue;
                }
            }
            self.take(octet, decoded);
            rest = after;
        }
    }

    fn take(&mut self, octet: u8, decoded: &mut Vec<u8>) {
        // Padding ends a quantum, so that parts that were encoded one by one and then joined decode too.
        if octet == b'=' {
            return self.end_of_quantum(decoded);
        }
        let value = BASE64_VALUES[usize::from(octet)];
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
            // A single character carries less than an octet.
            _ => {}
        }
        *self = Self::default();
    }
}

/// Decodes the quanta of four characters without anything between them at the start of `encoded`; how many octets of
/// it they are.
fn whole_quanta(encoded: &[u8], decoded: &mut Vec<u8>) -> usize {
    let (quanta, _) = encoded.as_chunks::<4>();
    for (done, quantum) in quanta.iter().enumerate() {
        let [a, b, c, d] = quantum.map(|octet| BASE64_VALUES[usize::from(octet)]);
        if (a | b | c | d) & NO_VALUE != 0 {
            return done * 4;
        }
        decoded.extend_from_slice(&[a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d]);
    }
    quanta.len() * 4
}

#[derive(Debug, Clone, Default)]
struct QuotedPrintable {
    at: At,
    /// White space that is data when something follows on its line and nothing when the line ends (RFC 2045
    /// section 6.7 rule 3).
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
    /// A longer run of white space is passed on as data: nothing that writes quoted-printable writes such lines, and
    /// memory stays bounded.
    const MAX_SPACES: usize = 1024;

    fn take(&mut self, octet: u8, decoded: &mut Vec<u8>) {
        self.at = match (self.at, octet) {
            (At::Text, _) => self.text(octet, decoded),
            (At::CarriageReturn, b'\n') => {
                self.spaces.clear();
                decoded.extend_from_slice(b"\r\n");
                At::Text
            }
            (At::CarriageReturn, _) => {
                decoded.append(&mut self.spaces);
                decoded.push(b'\r');
                self.text(octet, decoded)
            }
            (At::Equals | At::SpaceAfterEquals | At::CarriageReturnAfterEquals, b'\n') => {
                self.spaces.clear();
                At::Text
            }
            (At::Equals | At::SpaceAfterEquals, b'\r') => At::CarriageReturnAfterEquals,
            (At::Equals, _) if hex_digit(octet).is_some() => At::FirstDigit(octet),
            (At::Equals | At::SpaceAfterEquals, b' ' | b'\t') if self.spaces.len() < Self::MAX_SPACES => {
                self.spaces.push(octet);
                At::SpaceAfterEquals
            }
            (At::Equals | At::SpaceAfterEquals, _) => {
                decoded.push(b'=');
                decoded.append(&mut self.spaces);
                self.text(octet, decoded)
            }
            (At::CarriageReturnAfterEquals, _) => {
                self.spaces.clear();
                self.text(octet, decoded)
            }
            (At::FirstDigit(first), _) => self.second_digit(first, octet, decoded),
        };
    }

    fn second_digit(&mut self, first: u8, octet: u8, decoded: &mut Vec<u8>) -> At {
        match (hex_digit(first), hex_digit(octet)) {
            (Some(high), Some(low)) => {
                decoded.push(high << 4 | low);
                At::Text
            }
            _ => {
                decoded.extend_from_slice(&[b'=', first]);
                self.text(octet, decoded)
            }
        }
    }

    fn text(&mut self, octet: u8, decoded: &mut Vec<u8>) -> At {
        match octet {
            b' ' | b'\t' if self.spaces.len() < Self::MAX_SPACES => {
                self.spaces.push(octet);
                return At::Text;
            }
            b'\r' => return At::CarriageReturn,
            b'\n' => self.spaces.clear(),
            _ => decoded.append(&mut self.spaces),
        }
        if octet == b'=' {
            return At::Equals;
        }
        decoded.push(octet);
        At::Text
    }

    fn finish(self, decoded: &mut Vec<u8>) {
        match self.at {
            // The line end before a boundary belongs to the boundary: a last equals sign is a soft line break.
            At::Text | At::Equals | At::SpaceAfterEquals | At::CarriageReturnAfterEquals => {}
            At::CarriageReturn => decoded.push(b'\r'),
            At::FirstDigit(first) => decoded.extend_from_slice(&[b'=', first]),
        }
    }
}

fn hex_digit(octet: u8) -> Option<u8> {
    char::from(octet).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        fn whole_quanta_decode_as_character_by_character(
            encoded in prop::collection::vec(prop_oneof![
                8 => b'A'..=b'Z', 1 => Just(b'='), 1 => Just(b'\n'), 1 => any::<u8>()
            ], 0..200),
        ) {
            let (mut state, mut decoded) = (Base64::default(), Vec::new());
            encoded.iter().for_each(|&octet| state.take(octet, &mut decoded));
            state.end_of_quantum(&mut decoded);
            prop_assert_eq!(decode(TransferEncoding::Base64, &encoded), decoded);
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
                prop_assert_eq!(decoded.len() as u64, decoded_size(encoding, &encoded));
                prop_assert!(decoded.len() <= encoded.len());
            }
        }
    }
}
