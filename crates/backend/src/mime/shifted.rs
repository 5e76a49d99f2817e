//! Two charsets in which ASCII bytes can encode other characters: UTF-7 (RFC 2152) and HZ-GB-2312 (RFC 1843).

use encoding_rs::GBK;

/// Decodes UTF-7. Invalid input becomes U+FFFD or stays as written.
pub(super) fn decode_utf7(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == b'+') {
        text.push_str(&super::charset::guess(&rest[..at]));
        let shifted = &rest[at + 1..];
        let length = shifted.iter().take_while(|byte| sextet(**byte).is_some()).count();
        push_shifted(&mut text, &shifted[..length]);
        // A hyphen only ends the run; any other character is text.
        rest = &shifted[length..];
        rest = rest.strip_prefix(b"-").unwrap_or(rest);
    }
    text.push_str(&super::charset::guess(rest));
    text
}

/// Decodes a run of modified Base64: UTF-16, most significant byte first. An empty run is a plus sign.
fn push_shifted(text: &mut String, run: &[u8]) {
    if run.is_empty() {
        text.push('+');
    }
    let (mut bits, mut count, mut units) = (0_u32, 0, Vec::with_capacity(run.len() / 2));
    for sextet in run.iter().filter_map(|byte| sextet(*byte)) {
        bits = bits << 6 | u32::from(sextet);
        count += 6;
        if count >= 16 {
            count -= 16;
            units.push((bits >> count & 0xffff) as u16);
        }
    }
    text.extend(char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)));
}

const fn sextet(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

/// Decodes HZ-GB-2312: `~{` begins a run of two-byte characters, `~}` ends it, and `~~` is a tilde.
pub(super) fn decode_hz(bytes: &[u8]) -> String {
    let (mut plain, mut rest, mut is_shifted) = (Vec::with_capacity(bytes.len()), bytes, false);
    loop {
        rest = match (rest, is_shifted) {
            ([], _) => break,
            ([b'~', b'{', rest @ ..], false) => {
                is_shifted = true;
                rest
            }
            ([b'~', b'~', rest @ ..], false) => {
                plain.push(b'~');
                rest
            }
            // `~` before a line end continues the line.
            ([b'~', b'\n', rest @ ..], false) => rest,
            ([b'~', b'}', rest @ ..], true) => {
                is_shifted = false;
                rest
            }
            // A run ends with its line.
            ([b'\n', ..], true) => {
                is_shifted = false;
                rest
            }
            ([first @ b'!'..=b'~', second @ b'!'..=b'~', rest @ ..], true) => {
                plain.extend([first | 0x80, second | 0x80]);
                rest
            }
            ([byte, rest @ ..], _) => {
                plain.push(*byte);
                rest
            }
        };
    }
    GBK.decode_without_bom_handling(&plain).0.into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_broken_is_text_all_the_same() {
        assert_eq!(decode_utf7(b"+"), "+");
        assert_eq!(decode_utf7(b"a+2AA-b"), "a\u{fffd}b");
        assert_eq!(decode_hz(b"~{<"), "<");
        assert_eq!(decode_hz(b"~x ~"), "~x ~");
    }

    #[test]
    fn a_character_behind_a_run_stays() {
        assert_eq!(decode_utf7(b"caf+AOk! +AOk-t+AOk +AOk-"), "caf\u{e9}! \u{e9}t\u{e9} \u{e9}");
        assert_eq!(decode_utf7(b"Hi Mom +Jjo--+Jjo-!"), "Hi Mom \u{263a}-\u{263a}!");
        assert_eq!(decode_utf7(b"1 +- 1 = 2"), "1 + 1 = 2");
        assert_eq!(decode_utf7(b"+2D3cqQ-."), "\u{1f4a9}.");
    }

    #[test]
    fn runs_of_hz_are_chinese() {
        let text = decode_hz(b"This: ~{<:Ky2;S{#,NpJ)l6HK!#~}, ~~ ~\nend");
        assert_eq!(text, "This: 己所不欲，勿施於人。, ~ end");
        assert_eq!(decode_hz(b"~{<:Ky\nplain"), "\u{5df1}\u{6240}\nplain");
    }

    proptest! {
        #[test]
        fn what_was_written_in_utf7_is_read(text in "[a-z ]{0,5}(\\PC|[!+~-]){0,12}") {
            let mut written = Vec::new();
            for c in text.chars() {
                if c.is_ascii_alphanumeric() || c == ' ' {
                    written.push(c as u8);
                } else {
                    written.push(b'+');
                    let units = c.encode_utf16(&mut [0; 2]).iter().flat_map(|unit| unit.to_be_bytes()).collect::<Vec<_>>();
                    let bits: String = units.iter().map(|byte| format!("{byte:08b}")).collect();
                    for six in bits.as_bytes().chunks(6) {
                        let six = format!("{:0<6}", std::str::from_utf8(six).unwrap());
                        let value = u8::from_str_radix(&six, 2).unwrap();
                        written.extend((0..=127).find(|byte| sextet(*byte) == Some(value)));
                    }
                    written.push(b'-');
                }
            }
            prop_assert_eq!(decode_utf7(&written), text);
        }

        #[test]
        fn no_bytes_make_them_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            decode_utf7(&bytes);
            decode_hz(&bytes);
        }
    }
}
