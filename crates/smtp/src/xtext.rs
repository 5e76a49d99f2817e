//! The `xtext` encoding of DSN parameters (RFC 3461 section 4).

use std::fmt::Write;

/// Encodes `+`, `=` and everything outside printable ASCII as `+` and two upper-case hex digits.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'+' | b'=' | 0..=b' ' | 127.. => {
                write!(out, "+{byte:02X}").expect("writing into a String cannot fail");
            }
            _ => out.push(char::from(byte)),
        }
    }
    out
}

/// Decodes `xtext`. Returns `None` if it is malformed, or decodes to anything but printable ASCII. Otherwise
/// a line end hidden in an ENVID would reach the header of a notification.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let decoded = match byte {
            b'+' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            b'!'..=b'<' | b'>'..=b'~' => byte,
            _ => return None,
        };
        if !matches!(decoded, b' '..=b'~') {
            return None;
        }
        out.push(char::from(decoded));
    }
    Some(out)
}

/// Parses one hex digit; only upper case is allowed.
fn hex(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hidden_line_ends_and_broken_escapes_are_refused() {
        for wrong in ["a+0D+0Ab", "+", "+4", "+zz", "+2b", "a=b", "a b", "ä", "+80"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        assert_eq!(encode("a+b=c d"), "a+2Bb+3Dc+20d");
        assert_eq!(decode("a+2Bb+3Dc+20d").as_deref(), Some("a+b=c d"));
    }

    proptest! {
        #[test]
        fn any_text_is_decoded_or_refused_and_printable_text_comes_back(
            text in "(\\+[0-9A-Fa-f]{0,2}|[!-~]|\\PC){0,20}",
            printable in "[ -~]{0,40}",
        ) {
            if let Some(decoded) = decode(&text) {
                prop_assert!(decoded.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            }
            prop_assert_eq!(decode(&encode(&printable)), Some(printable));
        }
    }
}
