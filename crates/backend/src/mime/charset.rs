//! Charset decoding. Names are read by their kind: programs write `cp932`, `win-1251`, `koi8r` or `iso8859_5`, which no
//! register has.

use encoding_rs::{BIG5, EUC_JP, EUC_KR, Encoding, GB18030, ISO_2022_JP, REPLACEMENT, SHIFT_JIS, UTF_8, WINDOWS_1252};
use mail_parser::decoders::charsets::map::charset_decoder;
use oem_cp::code_table::DECODING_TABLE_CP_MAP;
use oem_cp::code_table_type::TableType;

use super::html;
use super::iso2022::{self, ESCAPE};
use super::shifted::{decode_hz, decode_utf7};

/// How the text in a charset is decoded.
enum Decoding {
    Standard(&'static Encoding),
    /// A code page of DOS.
    Oem(&'static TableType),
    Utf7,
    Hz,
    /// ISO 2022 with escape sequences, in Chinese, Japanese or Korean.
    Iso2022,
    /// By mail-parser, which knows some charsets that the Encoding Standard omits.
    Other(fn(&[u8]) -> String),
}

/// Decodes text in the charset with this name; never fails. A missing or unknown charset, or US-ASCII, means
/// UTF-8 if the bytes are valid UTF-8, otherwise Windows-1252.
pub(super) fn decode(charset: Option<&str>, bytes: &[u8]) -> String {
    match charset.and_then(decoding) {
        Some(Decoding::Standard(encoding)) => encoding.decode(bytes).0.into_owned(),
        Some(Decoding::Oem(table)) => table.decode_string_lossy(bytes),
        Some(Decoding::Utf7) => decode_utf7(bytes),
        Some(Decoding::Hz) => decode_hz(bytes),
        Some(Decoding::Iso2022) => iso2022::decode(bytes),
        Some(Decoding::Other(decode)) => decode(bytes),
        None => guess(bytes),
    }
}

/// Decodes the text of a part. HTML without a charset in its header may name one itself, as it does for browsers.
pub(super) fn decode_part(charset: Option<&str>, is_html: bool, bytes: &[u8]) -> String {
    let is_unnamed = charset.is_none_or(|name| is_ascii(name.trim()));
    // A server on the way may have converted the text, and left what it says of itself.
    let is_converted = || std::str::from_utf8(bytes).is_ok() && memchr::memchr(ESCAPE, bytes).is_none();
    if is_html && is_unnamed && !is_converted() {
        return decode(html::charset_of(bytes).as_deref(), bytes);
    }
    decode(charset, bytes)
}

/// Returns whether text in this charset is decoded in another way than that of an unknown one.
pub(super) fn is_known(charset: &str) -> bool {
    decoding(charset).is_some()
}

/// Returns `None` for unknown names, and for US-ASCII: text with other bytes is in another charset.
fn decoding(name: &str) -> Option<Decoding> {
    // Most mail names it like this.
    if name.eq_ignore_ascii_case("utf-8") {
        return Some(Decoding::Standard(UTF_8));
    }
    let label = name.trim().trim_matches(['"', '\'']).to_ascii_lowercase();
    if label.is_empty() || is_ascii(&label) {
        return None;
    }
    match label.as_str() {
        "utf-7" | "unicode-1-1-utf-7" | "unicode-2-0-utf-7" | "x-unicode-2-0-utf-7" | "csunicode11utf7" => {
            return Some(Decoding::Utf7);
        }
        "hz-gb-2312" | "hz" => return Some(Decoding::Hz),
        _ => {}
    }
    match Encoding::for_label(label.as_bytes()) {
        // The Encoding Standard refuses some old charsets entirely.
        Some(encoding) if encoding == REPLACEMENT => by_kind(&label),
        // Its decoder puts U+FFFD between two escape sequences, as they stand where two encoded words of mail are joined.
        Some(encoding) if encoding == ISO_2022_JP => Some(Decoding::Iso2022),
        Some(encoding) => Some(Decoding::Standard(encoding)),
        None => by_kind(&label).or_else(|| charset_decoder(label.as_bytes()).map(Decoding::Other)),
    }
}

/// Recognises a name by its letters and its number.
fn by_kind(label: &str) -> Option<Decoding> {
    let plain: String = label.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.strip_prefix('x').unwrap_or(&plain);
    let has = |beginnings: &[&str]| beginnings.iter().any(|beginning| plain.starts_with(beginning));
    // The code pages 50220 to 50227 are kinds of ISO 2022.
    if has(&["iso2022", "csiso2022", "cp5022", "jis7", "jiscode"]) {
        return Some(Decoding::Iso2022);
    }
    let standard = if has(&["shiftjis", "sjis", "mskanji"]) {
        SHIFT_JIS
    } else if has(&["eucj", "ujis", "cp51932"]) {
        EUC_JP
    } else if has(&["euckr", "ksc", "ksx", "uhc", "korean"]) {
        EUC_KR
    } else if has(&["gb", "euccn", "cngb", "eucgb", "cp51936"]) {
        GB18030
    } else if has(&["big5", "cnbig5"]) {
        BIG5
    } else {
        let digits = plain.find(|c: char| c.is_ascii_digit())?;
        let (family, number) = plain.split_at(digits);
        return by_number(family, number);
    };
    Some(Decoding::Standard(standard))
}

/// Recognises the members of a numbered family, such as `windows1251`, `cp932`, `iso88591` and `koi8r`.
fn by_number(family: &str, number: &str) -> Option<Decoding> {
    let of_label = |label: String| Encoding::for_label(label.as_bytes()).map(Decoding::Standard);
    match family {
        "koi" => of_label(number.replacen('8', "koi8-", 1)),
        "utf" => of_label(format!("utf-{number}")),
        "iso" | "isoir" | "" => of_label(number.replacen("8859", "iso-8859-", 1)),
        "latin" | "isolatin" => of_label(format!("latin{number}")),
        "cp" | "windows" | "win" | "ms" | "mscp" | "ibm" | "dos" | "codepage" | "oem" | "mswin" | "microsoftcp"
        | "cswindows" => {
            let page = number.parse().ok()?;
            let standard = codepage::to_encoding_no_replacement(page).map(Decoding::Standard);
            standard.or_else(|| DECODING_TABLE_CP_MAP.get(&page).map(Decoding::Oem))
        }
        _ => None,
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
        assert_eq!(decode(Some("cp99999"), "naïve".as_bytes()), "naïve");
        assert_eq!(decode(Some("iso-8859-99"), b"na\xefve"), "naïve");
    }

    #[test]
    fn the_usual_charsets_are_known() {
        assert_eq!(decode(Some("ISO-8859-15"), b"\xa4"), "€");
        assert_eq!(decode(Some("shift_jis"), b"\x83n\x83\x8d\x81[").as_str(), "ハロー");
        assert_eq!(decode(Some("iso-2022-jp"), b"\x1b$B%F\x1b(B\x1b$B%9\x1b(B\x1b(I1\x1b(J!"), "テスｱ!");
        assert_eq!(decode(Some("utf-7"), b"+AOk-"), "é");
        assert_eq!(decode(Some("UTF-7"), b"caf+AOk, t+AOk"), "café, té");
        assert_eq!(decode(Some("HZ-GB-2312"), b"~{<:Ky~}!"), "己所!");
        assert_eq!(decode(Some("UTF-16"), b"\xfe\xff\x00h\x00i"), "hi");
    }

    #[test]
    fn a_charset_is_known_by_other_spellings() {
        for (names, bytes, expected) in [
            (
                "cp932 ms932 x-ms-cp932 windows-31j shift_jis-2004 sjis-win shift-jisx0213",
                &b"\x93\xfa\x96{"[..],
                "日本",
            ),
            ("eucjp euc-jp-ms eucjp-win cp51932 cp20932", b"\xc6\xfc\xcb\xdc", "日本"),
            ("cp949 uhc ks_c_5601-1989 ksc_5601 x-windows-949 korean", b"\xc7\xd1", "한"),
            ("cp936 gbk gb2312-80 euc-cn windows-936 gb18030-2005", b"\xd6\xd0", "中"),
            ("cp950 big5-hkscs big-5 cn-big5 windows-950", b"\xa4\xa4", "中"),
            ("windows1251 win-1251 cp-1251 cp1251 WIN1251 ms-cp1251 windows_1251", b"\xcf\xf0", "Пр"),
            ("koi8r koi8-r koi8_r KOI8-RU", b"\xf0\xd2", "Пр"),
            ("cp866 ibm866 dos-866", b"\x8f\xe0", "Пр"),
            ("iso8859_5 iso88595 iso_8859-5 iso-8859-5:1988 8859-5", b"\xbf\xe0", "Пр"),
            ("cp437 ibm437 dos-437 oem437", b"\x84\x94", "äö"),
            ("cp850 ibm850 cp858", b"\x84\x94", "äö"),
            ("cp852 ibm852", b"\xa5", "ą"),
            ("cp874 tis-620 windows-874 dos-874", b"\xa1", "ก"),
            ("utf8 utf_8 UTF-8 x-utf-8 utf8mb4 cp65001", "ü".as_bytes(), "ü"),
            (
                "iso-2022-jp iso-2022-jp-2 iso-2022-jp-3 iso-2022-jp-ms cp50220 cp50221 cp50222",
                b"\x1b$BF|K\\\x1b(B",
                "日本",
            ),
            ("iso-2022-kr cp50225 csISO2022KR", b"\x1b$)C\x0eGQ19\x0f", "한국"),
            ("iso-2022-cn iso-2022-cn-ext", b"\x1b$)A\x0eVPND\x0f", "中文"),
        ] {
            for name in names.split(' ') {
                assert_eq!(decode(Some(name), bytes), expected, "{name}");
            }
        }
    }

    #[test]
    fn html_without_a_charset_is_read_in_its_own() {
        let page = |meta: &str, text: &[u8]| [b"<html><head>", meta.as_bytes(), b"</head>", text].concat();
        for (meta, text, expected) in [
            ("<META content='text/html; charset=windows-1251' http-equiv=Content-Type>", &b"\xcf\xf0"[..], "Пр"),
            ("<meta charset=\"koi8-r\">", b"\xf0\xd2", "Пр"),
            ("<meta name=x><meta charset = iso-2022-jp >", b"\x1b$BF|\x1b(B", "日"),
            ("<meta charset=koi8-r>", "ü".as_bytes(), "ü"),
            ("<meta charset=utf-16>", b"\xfc", "ü"),
            ("<meta charset=>", b"\xfc", "ü"),
            ("<p>charset=koi8-r<metal charset=koi8-r>", b"\xfc", "ü"),
        ] {
            let page = page(meta, text);
            for charset in [None, Some("US-ASCII")] {
                assert!(decode_part(charset, true, &page).ends_with(expected), "{meta}");
            }
            assert!(!decode_part(Some("iso-8859-5"), true, &page).contains("Пр"), "{meta}");
        }
    }

    proptest! {
        #[test]
        fn any_page_is_read(page in "(<meta |charset|=|[\"'> a]|koi8-r|\\PC){0,30}", end in any::<u8>()) {
            decode_part(None, true, &[page.as_bytes(), &[end, 0xff]].concat());
        }

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
