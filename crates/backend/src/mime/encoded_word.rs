//! Decodes encoded words in header values (RFC 2047), in one pass.
//!
//! mail-parser is not used for two reasons. It searches for the end of each unfinished word up to the end of
//! the value, so a value full of such words takes seconds. And it decodes each word by itself, which loses
//! characters that a sender split across two words.

use super::charset;
use super::transfer::{TransferEncoding, decode};

/// Maximum length of a charset name with its language (RFC 2231 section 5).
const MAX_CHARSET: usize = 64;

/// A section of a header value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece<'a> {
    Plain(&'a str),
    /// One or more decoded words; white space between them is ignored (section 6.2).
    Decoded(String),
}

/// Returns whether a value contains `=?`, the start of an encoded word. Almost no value does.
pub(super) fn may_begin_in(value: &[u8]) -> bool {
    memchr::memchr_iter(b'=', value).any(|at| value.get(at + 1) == Some(&b'?'))
}

/// Decodes the encoded words of a value.
pub(super) fn decoded(value: &str) -> String {
    let piece = |piece| match piece {
        Piece::Plain(text) => text.to_owned(),
        Piece::Decoded(text) => text,
    };
    pieces(value).into_iter().map(piece).collect()
}

fn pieces(value: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut pending = Pending::default();
    // The start of the text not yet consumed, and where to search for the next word.
    let (mut taken, mut at) = (0, 0);
    // A `=?` after the last `?=` cannot be a word. Skipping those keeps the search linear.
    let last_end = value.rfind("?=").unwrap_or_default();
    while let Some(start) = value[at..].find("=?").map(|found| at + found).filter(|&start| start < last_end) {
        let Some(word) = Word::at(&value[start..]) else {
            at = start + 2;
            continue;
        };
        let between = &value[taken..start];
        // White space between two words is ignored; anything else ends the run of words.
        if pending.is_empty() || !between.trim().is_empty() {
            pending.end_into(&mut pieces);
            push_plain(&mut pieces, between);
        }
        pending.push(&word);
        at = start + word.length;
        taken = at;
    }
    pending.end_into(&mut pieces);
    push_plain(&mut pieces, &value[taken..]);
    pieces
}

fn push_plain<'a>(pieces: &mut Vec<Piece<'a>>, text: &'a str) {
    if !text.is_empty() {
        pieces.push(Piece::Plain(text));
    }
}

struct Word<'a> {
    charset: &'a str,
    bytes: Vec<u8>,
    length: usize,
}

impl<'a> Word<'a> {
    /// Parses the word at the start of `text`, which begins with `=?`.
    fn at(text: &'a str) -> Option<Self> {
        let mut end = MAX_CHARSET.min(text.len() - 2);
        while !text.is_char_boundary(2 + end) {
            end -= 1;
        }
        let charset_end = text[2..2 + end].find('?')?;
        let charset = &text[2..2 + charset_end];
        if charset.is_empty() || charset.contains(char::is_whitespace) {
            return None;
        }
        let rest = &text[2 + charset_end + 1..];
        let (&encoding, data) = (rest.as_bytes().first()?, rest.get(1..)?.strip_prefix('?')?);
        if !b"qQbB".contains(&encoding) {
            return None;
        }
        let data = &data[..data.find("?=")?];
        // The Q encoding writes a space as an underscore (RFC 2047 section 4.2).
        let bytes = match encoding {
            b'q' | b'Q' => decode(TransferEncoding::QuotedPrintable, data.replace('_', "=20").as_bytes()),
            _ => decode(TransferEncoding::Base64, data.as_bytes()),
        };
        let length = 2 + charset.len() + 3 + data.len() + 2;
        // Drop the language (RFC 2231 section 5).
        let charset = charset.split('*').next().unwrap_or(charset);
        Some(Self { charset, bytes, length })
    }
}

/// A run of adjacent encoded words. Bytes are decoded together, because a character may be split across
/// words.
#[derive(Default)]
struct Pending<'a> {
    text: String,
    charset: &'a str,
    bytes: Vec<u8>,
    any: bool,
}

impl<'a> Pending<'a> {
    fn is_empty(&self) -> bool {
        !self.any
    }

    fn push(&mut self, word: &Word<'a>) {
        // Bytes of different charsets cannot be decoded together.
        if !self.charset.eq_ignore_ascii_case(word.charset) {
            self.decode_bytes();
        }
        self.charset = word.charset;
        self.bytes.extend_from_slice(&word.bytes);
        self.any = true;
    }

    fn decode_bytes(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.text.push_str(&charset::decode(Some(self.charset), &bytes));
    }

    fn end_into(&mut self, pieces: &mut Vec<Piece<'_>>) {
        if self.any {
            self.decode_bytes();
            pieces.push(Piece::Decoded(std::mem::take(&mut self.text)));
            self.any = false;
        }
    }
}

/// A value whose encoded words are replaced by opaque tokens while a field parser reads it. So a comma in a
/// decoded name does not separate addresses.
pub(super) struct Hidden {
    /// The value with tokens in place of words.
    pub(super) value: String,
    words: Vec<String>,
}

impl Hidden {
    /// A private-use character (Unicode section 23.5) that encloses the number of a word.
    const MARK: char = '\u{f8ff}';

    pub(super) fn new(value: &str) -> Self {
        // Room for the line end that field parsers require.
        let mut hidden = Self { value: String::with_capacity(value.len() + 1), words: Vec::new() };
        if value.is_ascii() && !may_begin_in(value.as_bytes()) {
            hidden.value.push_str(value);
            return hidden;
        }
        for piece in pieces(value) {
            match piece {
                Piece::Plain(text) => hidden.push_plain(text),
                Piece::Decoded(text) => hidden.push_word(text),
            }
        }
        hidden
    }

    /// Adds plain text. Incomplete words and the mark itself are hidden too.
    fn push_plain(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = [rest.find("=?"), rest.find(Self::MARK)].into_iter().flatten().min() {
            let length = if rest[at..].starts_with('=') { 2 } else { Self::MARK.len_utf8() };
            self.value.push_str(&rest[..at]);
            self.push_word(rest[at..at + length].to_owned());
            rest = &rest[at + length..];
        }
        self.value.push_str(rest);
    }

    fn push_word(&mut self, word: String) {
        self.value.push_str(&format!("{}{}{}", Self::MARK, self.words.len(), Self::MARK));
        self.words.push(word);
    }

    /// Restores the words in a parser's output.
    pub(super) fn reveal(&self, parsed: &str) -> String {
        if self.words.is_empty() {
            return parsed.to_owned();
        }
        let mut text = String::with_capacity(parsed.len());
        for (number, stretch) in parsed.split(Self::MARK).enumerate() {
            if number % 2 == 0 {
                text.push_str(stretch);
            } else if let Some(word) = stretch.parse().ok().and_then(|index: usize| self.words.get(index)) {
                text.push_str(word);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_encoded_word_stands_for_itself() {
        for text in ["=?", "=?utf-8?q?open", "=??q?a?=", "=?utf-8?x?a?=", "=?utf-8?q", "=?a b?q?c?=", "a =? b ?= c"] {
            assert_eq!(decoded(text), text);
        }
    }

    #[test]
    fn words_are_decoded_and_joined() {
        assert_eq!(decoded("a =?iso-8859-1*en?Q?caf=E9_au?= =?UTF-8?B?IGxhaXQ=?= b"), "a café au lait b");
        assert_eq!(decoded("(=?utf-8?q?x?=)"), "(x)");
    }

    #[test]
    fn a_character_cut_in_two_is_whole_again() {
        assert_eq!(decoded("=?utf-8?q?caf=C3?= \t=?UTF-8?q?=A9?="), "café");
        assert_eq!(decoded("=?utf-8?b?4oI=?= =?utf-8?b?rA==?="), "€");
    }

    #[test]
    fn hidden_words_come_back() {
        let text = "=?utf-8?q?Lee=2C?= =?utf-8?q?_Ann?= <a@x>, \u{f8ff}0\u{f8ff} =?broken";
        let hidden = Hidden::new(text);
        assert_eq!(hidden.value.matches(',').count(), 1);
        assert!(!hidden.value.contains("=?"));
        assert_eq!(hidden.reveal(&hidden.value), "Lee, Ann <a@x>, \u{f8ff}0\u{f8ff} =?broken");
    }

    proptest! {
        #[test]
        fn any_value_is_read(value in "(=\\?|\\?=|\\?|utf-8|q|b|=C3|é|\u{f8ff}| |\\PC){0,40}|(=\\?(utf-8|UTF-8\\*en|iso-2022-jp|x|utf-7)\\?([qQ]\\?(=[0-9A-F]{2}|_|[a-z]|[ =]){0,6}|[bB]\\?[A-Za-z0-9+/=]{0,9})\\?=| |\t|\r\n |a|é|\u{f8ff}){0,10}") {
            let hidden = Hidden::new(&value);
            prop_assert_eq!(hidden.reveal(&hidden.value), decoded(&value));
        }
    }
}
