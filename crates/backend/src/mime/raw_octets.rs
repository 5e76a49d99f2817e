//! Header fields with octets that are neither ASCII nor UTF-8 (RFC 5322 and RFC 6532 allow no others). Old programs put
//! them there in the charset of the message, or leave them unencoded in an encoded word.

use std::borrow::Cow;

use super::charset;
use super::fields::{Field, Parameterized};

/// Longer than any field with a charset.
const MAX_BYTES: usize = 8192;

/// Converts the values of a header block to UTF-8.
pub(super) fn convert(fields: &mut [Field<'_>]) {
    let content_type = fields.iter().find(|field| field.name.eq_ignore_ascii_case("Content-Type"));
    let read = content_type.and_then(|field| Parameterized::read(&field.value, MAX_BYTES));
    let declared = read.as_ref().and_then(|read| read.parameter("charset")).filter(|name| charset::is_known(name));
    for field in fields {
        if std::str::from_utf8(&field.value).is_err() {
            field.value = Cow::Owned(converted(&field.value, declared).into_bytes());
        }
    }
}

fn converted(value: &[u8], declared: Option<&str>) -> String {
    let escaped = with_escapes(value);
    // UTF-8 in a message of another charset is recognised; the reverse would only give replacement characters.
    let is_utf8 = |name: &str| name.eq_ignore_ascii_case("utf-8") || name.eq_ignore_ascii_case("utf8");
    match declared.filter(|name| !is_utf8(name)) {
        Some(_) | None if std::str::from_utf8(&escaped).is_ok() => charset::guess(&escaped),
        Some(declared) => charset::decode(Some(declared), &escaped),
        None => charset::guess(&escaped),
    }
}

/// Encodes octets inside words of the Q encoding (RFC 2047 section 4.2), so that they are decoded by the word's charset.
fn with_escapes(value: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some(start) = memchr::memmem::find(rest, b"=?") {
        let (before, word) = rest.split_at(start);
        escaped.extend_from_slice(before);
        let length = q_word(word);
        if length == 0 {
            escaped.extend_from_slice(b"=?");
            rest = &word[2..];
            continue;
        }
        for &byte in &word[..length] {
            if byte.is_ascii() {
                escaped.push(byte);
            } else {
                escaped.extend_from_slice(format!("={byte:02X}").as_bytes());
            }
        }
        rest = &word[length..];
    }
    escaped.extend_from_slice(rest);
    escaped
}

/// Returns the length of the word of the Q encoding that begins here; 0 if none does. No word is longer than a line.
fn q_word(text: &[u8]) -> usize {
    const MAX_WORD: usize = 998;
    let text = &text[..text.len().min(MAX_WORD)];
    let Some(charset) = memchr::memchr(b'?', &text[2..]).map(|at| 2 + at) else { return 0 };
    if !text[2..charset].iter().all(u8::is_ascii_graphic) || !matches!(text[charset..], [b'?', b'q' | b'Q', b'?', ..]) {
        return 0;
    }
    let data = charset + 3;
    memchr::memmem::find(&text[data..], b"?=").map_or(0, |end| data + end + 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Header, headers};
    use super::*;

    fn subject(header: &[u8]) -> String {
        Header::of(header).text("Subject").unwrap()
    }

    #[test]
    fn a_word_that_is_not_encoded_has_its_own_charset() {
        assert_eq!(subject(b"Subject: =?iso-8859-1?Q?Fr\xf6sche?=\r\n\r\n"), "Frösche");
        assert_eq!(subject(b"Subject: =?koi8-r?q?\xf0\xd2_?=\xe4\r\n\r\n"), "Пр ä");
        assert_eq!(subject("Subject: =?utf-8?Q?Frösche?=\r\n\r\n".as_bytes()), "Frösche");
    }

    #[test]
    fn other_octets_are_in_the_charset_of_the_message() {
        for charset in ["koi8-r", "\"KOI8-R\"", "koi8r"] {
            let header = [
                b"Subject: \xf0\xd2\r\nFrom: \xf0\xd2 <a@x.test>\r\nContent-Type: text/plain; charset=",
                charset.as_bytes(),
                b"\r\n\r\n",
            ];
            let header = header.concat();
            assert_eq!(subject(&header), "Пр");
            assert_eq!(headers(&header)[1].1, "Пр <a@x.test>");
        }
        assert_eq!(subject(b"Subject: caf\xe9\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"), "café");
        assert_eq!(subject(b"Subject: caf\xe9\r\n\r\n"), "café");
        let mixed = b"Subject: caf\xc3\xa9\r\nX: \xff\r\nContent-Type: text/plain; charset=koi8-r\r\n\r\n";
        assert_eq!(subject(mixed), "café");
    }

    proptest! {
        #[test]
        fn any_octets_become_text(value in prop::collection::vec(prop_oneof![any::<u8>(),
            prop::sample::select(b"=?qQB\xf6 ".to_vec())], 0..80)) {
            let _ = (converted(&value, None), converted(&value, Some("koi8-r")), converted(&value, Some("shift_jis")));
        }
    }
}
