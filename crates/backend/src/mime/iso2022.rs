//! The charsets of ISO 2022 with seven bits (RFC 1468, RFC 1554, RFC 1557, RFC 1922, and their later kin): escape
//! sequences say in which set of characters the following bytes are. The Encoding Standard has only one of them.

use encoding_rs::{EUC_JP, EUC_KR, Encoding, GBK, ISO_8859_7};

pub(super) const ESCAPE: u8 = 0x1b;
const SHIFT_OUT: u8 = 0x0e;
const SHIFT_IN: u8 = 0x0f;

/// A set of characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    Ascii,
    Katakana,
    /// The upper half of ISO 8859-1.
    Latin,
    Greek,
    /// Two bytes for each character, in an encoding that has them with the eighth bit set.
    Double(&'static Encoding),
    /// JIS X 0212, in EUC-JP after a prefix.
    Jis0212,
}

impl Set {
    const fn is_double(self) -> bool {
        matches!(self, Self::Double(_) | Self::Jis0212)
    }
}

/// Decodes text of any of these charsets. What is invalid becomes U+FFFD or stays as written.
pub(super) fn decode(bytes: &[u8]) -> String {
    let mut reader = Reader { text: String::with_capacity(bytes.len()), ..Reader::default() };
    let mut rest = bytes;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = match byte {
            ESCAPE => reader.escape(behind).unwrap_or(behind),
            SHIFT_OUT => reader.shift(true, behind),
            SHIFT_IN => reader.shift(false, behind),
            _ => reader.character(byte, behind),
        };
    }
    reader.flush();
    reader.text
}

struct Reader {
    text: String,
    /// The sets that escapes have chosen for plain bytes, for shifted bytes, and for single characters.
    g0: Set,
    g1: Set,
    g2: Set,
    is_shifted: bool,
    /// Characters of one set that are decoded together.
    run: Vec<u8>,
    run_set: Set,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            text: String::new(),
            g0: Set::Ascii,
            // What Korean mail without a designation means.
            g1: Set::Double(EUC_KR),
            g2: Set::Latin,
            is_shifted: false,
            run: Vec::new(),
            run_set: Set::Ascii,
        }
    }
}

impl Reader {
    /// Reads an escape sequence behind its first byte; `None` if it is unknown, which drops the escape alone.
    fn escape<'a>(&mut self, behind: &'a [u8]) -> Option<&'a [u8]> {
        let (place, set, length) = match *behind {
            [b'(', b'B', ..] | [b'(', b'J', ..] => (&mut self.g0, Set::Ascii, 2),
            [b'(', b'I', ..] => (&mut self.g0, Set::Katakana, 2),
            [b')', b'I', ..] => (&mut self.g1, Set::Katakana, 2),
            [b'$', b'@' | b'B', ..] => (&mut self.g0, Set::Double(EUC_JP), 2),
            [b'$', b'A', ..] => (&mut self.g0, Set::Double(GBK), 2),
            // JIS X 0213, most of whose first plane is that of JIS X 0208.
            [b'$', b'(', b'@' | b'B' | b'O' | b'Q', ..] => (&mut self.g0, Set::Double(EUC_JP), 3),
            [b'$', b'(', b'C', ..] => (&mut self.g0, Set::Double(EUC_KR), 3),
            [b'$', b'(', b'D', ..] => (&mut self.g0, Set::Jis0212, 3),
            [b'$', b')', b'A', ..] => (&mut self.g1, Set::Double(GBK), 3),
            [b'$', b')', b'C', ..] => (&mut self.g1, Set::Double(EUC_KR), 3),
            [b'.', b'A', ..] => (&mut self.g2, Set::Latin, 2),
            [b'.', b'F', ..] => (&mut self.g2, Set::Greek, 2),
            // A single character of the third set.
            [b'N', byte, ..] => {
                let set = self.g2;
                self.push(set, &[byte | 0x80]);
                return behind.get(2..);
            }
            _ => return None,
        };
        *place = set;
        behind.get(length..)
    }

    fn shift<'a>(&mut self, is_shifted: bool, behind: &'a [u8]) -> &'a [u8] {
        self.is_shifted = is_shifted;
        behind
    }

    /// Reads a character that begins with `byte`, and returns what follows it.
    fn character<'a>(&mut self, byte: u8, behind: &'a [u8]) -> &'a [u8] {
        let set = if self.is_shifted { self.g1 } else { self.g0 };
        let is_graphic = |byte: u8| (0x21..=0x7e).contains(&byte);
        if byte == b'\n' {
            // Each line of Korean and Chinese begins unshifted (RFC 1557).
            self.is_shifted = false;
        }
        match behind.first() {
            Some(&second) if set.is_double() && is_graphic(byte) && is_graphic(second) => {
                self.push(set, &[byte | 0x80, second | 0x80]);
                &behind[1..]
            }
            _ if set == Set::Katakana && is_graphic(byte) => {
                self.push(set, &[byte | 0x80]);
                behind
            }
            _ => {
                self.push(Set::Ascii, &[byte]);
                behind
            }
        }
    }

    fn push(&mut self, set: Set, bytes: &[u8]) {
        if set != self.run_set {
            self.flush();
            self.run_set = set;
        }
        match set {
            // Prefixes of EUC-JP.
            Set::Jis0212 => self.run.push(0x8f),
            Set::Katakana => self.run.push(0x8e),
            _ => {}
        }
        self.run.extend_from_slice(bytes);
    }

    fn flush(&mut self) {
        let decoded =
            |encoding: &'static Encoding, run: &[u8]| encoding.decode_without_bom_handling(run).0.into_owned();
        let text = match self.run_set {
            Set::Ascii => super::charset::guess(&self.run),
            Set::Latin => self.run.iter().map(|&byte| char::from(byte)).collect(),
            Set::Greek => decoded(ISO_8859_7, &self.run),
            Set::Katakana | Set::Jis0212 => decoded(EUC_JP, &self.run),
            Set::Double(encoding) => decoded(encoding, &self.run),
        };
        self.text.push_str(&text);
        self.run.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sets_change_within_a_text() {
        let text =
            decode(b"a\x1b$BF|K\\\x1b(Bb \x1b(I1\x1b(J c\x1b$(DB_\x1b(B \x1b$AVPND\x1b(B \x1b.A\x1bNi\x1b.F\x1bNa");
        assert_eq!(text, "a日本b ｱ c曀 中文 éα");
    }

    #[test]
    fn shifted_korean_ends_with_its_line() {
        assert_eq!(decode(b"\x1b$)C\x0eGQ19\nplain \x0eGQ\x0f end"), "한국\nplain 한 end");
    }

    #[test]
    fn what_is_broken_is_text_all_the_same() {
        assert_eq!(decode(b"\x1b"), "");
        assert_eq!(decode(b"\x1b$BF"), "F");
        assert_eq!(decode(b"\x1b[1m bold"), "[1m bold");
        assert_eq!(decode("ü\u{e000}".as_bytes()), "ü\u{e000}");
    }

    proptest! {
        #[test]
        fn it_reads_japanese_as_the_standard_does(text in "[ -~あ-ん日本語ー]{0,40}") {
            let (bytes, _, _) = encoding_rs::ISO_2022_JP.encode(&text);
            prop_assert_eq!(decode(&bytes), text);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(prop_oneof![any::<u8>(),
            prop::sample::select(b"\x1b$().ABCDFIJNOQ@\x0e\x0f\n".to_vec())], 0..60)) {
            decode(&bytes);
        }
    }
}
