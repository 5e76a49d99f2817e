//! Encoded words (RFC 2047).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Bytes of text per encoded word: with base64 and its frame, a word stays within the 75 characters of RFC 2047
/// section 2.
const MAX_BYTES: usize = 45;

/// Returns the text with spaces in place of control characters.
pub(super) fn on_one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Returns ASCII text unchanged and other text as encoded words.
pub(super) fn encode(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let words: Vec<String> = chunks(text).map(|chunk| format!("=?utf-8?B?{}?=", STANDARD.encode(chunk))).collect();
    // White space between adjacent encoded words is not part of the text (RFC 2047 section 6.2).
    words.join(" ")
}

fn chunks(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (chunk, rest) = text.split_at(text.floor_char_boundary(MAX_BYTES));
        text = rest;
        (!chunk.is_empty()).then_some(chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(words: &str) -> String {
        let bytes = words.split(' ').flat_map(|word| {
            let inner = word.strip_prefix("=?utf-8?B?").and_then(|word| word.strip_suffix("?=")).unwrap();
            STANDARD.decode(inner).unwrap()
        });
        String::from_utf8(bytes.collect()).unwrap()
    }

    #[test]
    fn ascii_stays() {
        assert_eq!(encode(&on_one_line("a\r\nb")), "a  b");
    }

    proptest! {
        #[test]
        fn words_are_short_and_read_back(text in "[a-z\u{e9}\u{1F600} ]{0,80}\u{e9}") {
            let words = encode(&text);
            prop_assert!(words.is_ascii() && words.split(' ').all(|word| word.len() <= 75));
            prop_assert_eq!(decode(&words), text);
        }
    }
}
