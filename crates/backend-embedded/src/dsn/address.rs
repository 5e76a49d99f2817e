//! Addresses in report fields.

use std::fmt::Write;

use mailapi_model::EmailAddress;

/// Returns `rfc822;address`, or for an address outside ASCII its ASCII form (RFC 6533 section 3).
pub(super) fn typed(address: &EmailAddress) -> String {
    let text = address.wire();
    if text.is_ascii() { format!("rfc822;{text}") } else { format!("utf-8;{}", unitext(&text)) }
}

/// Returns whether an ORCPT parameter is valid in a report field as received.
pub(super) fn is_typed(text: &str) -> bool {
    let (kind, address) = text.split_once(';').unwrap_or_default();
    !kind.is_empty() && !address.is_empty() && text.bytes().all(|byte| (b'!'..=b'~').contains(&byte))
}

/// Encodes an address as utf-8-addr-unitext: all but printable ASCII, and the special characters, become
/// `\x{HEX}`.
fn unitext(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '+' | '=' => write_hex(&mut out, character),
            '!'..='~' => out.push(character),
            _ => write_hex(&mut out, character),
        }
    }
    out
}

fn write_hex(out: &mut String, character: char) {
    // Writing to a string cannot fail.
    let _ = write!(out, "\\x{{{:02X}}}", u32::from(character));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_international_address_is_written_in_ascii() {
        assert_eq!(typed(&"ann@x.org".parse().unwrap()), "rfc822;ann@x.org");
        assert_eq!(typed(&"jürgen+a@x.org".parse().unwrap()), "utf-8;j\\x{FC}rgen\\x{2B}a@x.org");
    }

    #[test]
    fn an_original_recipient_that_breaks_the_field_is_left_out() {
        for wrong in ["", ";", "rfc822;", ";a@b", "rfc822;a b", "rfc822;a\r\nX: y", "utf-8;ü@x"] {
            assert!(!is_typed(wrong), "{wrong:?}");
        }
        assert!(is_typed("rfc822;ann+40x.org"));
    }
}
