//! Charset decoding.

use encoding_rs::{Encoding, REPLACEMENT, WINDOWS_1252};
use mail_parser::decoders::charsets::map::charset_decoder;

use super::shifted::{decode_hz, decode_utf7};

/// Decodes text in the charset with this name; never fails. A missing or unknown charset, or US-ASCII, means
/// UTF-8 if the bytes are valid UTF-8, otherwise Windows-1252.
pub(super) fn decode(charset: Option<&str>, bytes: &[u8]) -> String {
    let label = charset.unwrap_or_default().trim();
    if label.is_empty() || is_ascii(label) {
        return guess(bytes);
    }
    match label.to_ascii_lowercase().as_str() {
        "utf-7" | "unicode-1-1-utf-7" | "unicode-2-0-utf-7" | "x-unicode-2-0-utf-7" | "csunicode11utf7" => {
            return decode_utf7(bytes);
        }
        "hz-gb-2312" | "hz" => return decode_hz(bytes),
        _ => {}
    }
    match Encoding::for_label(label.as_bytes()) {
        // The Encoding Standard refuses some old charsets entirely; show what is readable in them.
        Some(encoding) if encoding == REPLACEMENT => guess(bytes),
        Some(encoding) => encoding.decode(bytes).0.into_owned(),
        // Names that the Encoding Standard omits.
        None => charset_decoder(label.as_bytes()).map_or_else(|| guess(bytes), |decode| decode(bytes)),
    }
}

/// Decodes text of unknown charset, such as raw bytes in a header.
pub(super) fn guess(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes)
        .map_or_else(|_| WINDOWS_1252.decode_without_bom_handling(bytes).0.into_owned(), ToOwned::to_owned)
}

fn is_ascii(label: &str) -> bool {
    ["us-ascii", "ascii", "ansi_x3.4-1968", "unknown-8bit", "x-unknown"]
        .iter()
        .any(|name| name.eq_ignore_ascii_case(label))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wrong_and_missing_charsets_still_give_text() {
        assert_eq!(decode(Some("no-such-charset"), "naïve".as_bytes()), "naïve");
        assert_eq!(decode(Some("us-ascii"), b"na\xefve"), "naïve");
        assert_eq!(decode(None, b"\xff\xfe\xfd"), "ÿþý");
        assert_eq!(decode(Some("utf-8"), b"a\xffb"), "a\u{fffd}b");
        assert_eq!(decode(Some("iso-2022-kr"), b"plain"), "plain");
    }

    #[test]
    fn the_usual_charsets_are_known() {
        assert_eq!(decode(Some("ISO-8859-15"), b"\xa4"), "€");
        assert_eq!(decode(Some("shift_jis"), b"\x83n\x83\x8d\x81[").as_str(), "ハロー");
        assert_eq!(decode(Some("utf-7"), b"+AOk-"), "é");
        assert_eq!(decode(Some("UTF-7"), b"caf+AOk, t+AOk"), "café, té");
        assert_eq!(decode(Some("HZ-GB-2312"), b"~{<:Ky~}!"), "己所!");
        assert_eq!(decode(Some("UTF-16"), b"\xfe\xff\x00h\x00i"), "hi");
    }

    proptest! {
        #[test]
        fn any_bytes_are_text_in_any_charset(
            charset in prop_oneof![
                8 => prop::sample::select(vec![
                    "utf-7", "UTF-8", "utf-16", "utf-16le", "utf-16be", "iso-2022-jp", "iso-2022-kr", "hz-gb-2312", "gb18030",
                    "big5", "euc-kr", "shift_jis", "koi8-r", "windows-1258", "macintosh", "x-user-defined", "us-ascii", "cp437",
                    "utf-32", "ucs-2", "iso-8859-8-i", "ebcdic-us", "cesu-8", "unicode-1-1-utf-7", "iso-2022-cn",
                ]).prop_map(str::to_owned),
                1 => "[ -~]{0,20}|\\PC{0,10}",
            ],
            bytes in prop::collection::vec(prop_oneof![
                4 => any::<u8>(), 2 => b' '..=b'~', 1 => prop::sample::select(b"+-&/=\x1b$()~{}\x0e\x0f\xfe\xff\0".to_vec()),
            ], 0..60),
        ) {
            decode(Some(&charset), &bytes);
            let written = bytes.windows(3).any(|three| three == [0xef, 0xbf, 0xbd]);
            prop_assert!(written || !guess(&bytes).contains(char::REPLACEMENT_CHARACTER));
        }
    }
}
