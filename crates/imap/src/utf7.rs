//! Modified UTF-7, the wire form of mailbox names (RFC 3501 section 5.1.3).

use base64::Engine as _;
use base64::alphabet::IMAP_MUTF7;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};

const BASE64: GeneralPurpose = GeneralPurpose::new(&IMAP_MUTF7, NO_PAD);

/// Encodes a name to its wire form.
pub fn encode(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut shifted: Vec<u8> = Vec::new();
    for c in name.chars() {
        if !is_direct(c) {
            let mut units = [0; 2];
            shifted.extend(c.encode_utf16(&mut units).iter().flat_map(|unit| unit.to_be_bytes()));
            continue;
        }
        flush(&mut out, &mut shifted);
        out.push(c);
        // `&` begins a shift, so the character itself is `&-`.
        if c == '&' {
            out.push('-');
        }
    }
    flush(&mut out, &mut shifted);
    out
}

fn flush(out: &mut String, shifted: &mut Vec<u8>) {
    if !shifted.is_empty() {
        out.push('&');
        BASE64.encode_string(&shifted, out);
        out.push('-');
        shifted.clear();
    }
}

fn is_direct(c: char) -> bool {
    matches!(c, ' '..='~')
}

/// Decodes a wire form; `None` unless it is the canonical form of [`encode`]. An alias could bypass a comparison of
/// names.
pub fn decode(wire: &[u8]) -> Option<String> {
    let wire = std::str::from_utf8(wire).ok()?;
    let mut name = String::with_capacity(wire.len());
    let mut rest = wire;
    while let Some((direct, shift)) = rest.split_once('&') {
        name.push_str(direct);
        let (encoded, after) = shift.split_once('-')?;
        if encoded.is_empty() {
            name.push('&');
        } else {
            name.push_str(&decode_shift(encoded)?);
        }
        rest = after;
    }
    name.push_str(rest);
    // Encoding again rejects every other form of the same name.
    (encode(&name) == wire).then_some(name)
}

fn decode_shift(encoded: &str) -> Option<String> {
    let bytes = BASE64.decode(encoded).ok()?;
    let (pairs, odd) = bytes.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().map(|&pair| u16::from_be_bytes(pair)).collect();
    odd.is_empty().then(|| String::from_utf16(&units).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn anything_but_the_one_true_form_is_refused() {
        // In order: not closed, invalid base64, ASCII in base64, a lone surrogate, adjacent shifts, raw 8-bit.
        for wire in ["&AOk", "&A-", "&AGE-", "&2D0-", "&AOk-&AOk-", "caf\u{e9}", "&=-", "&"] {
            assert_eq!(decode(wire.as_bytes()), None, "{wire}");
        }
        assert_eq!(decode(b"\xff"), None);
    }

    #[test]
    fn the_example_of_the_standard() {
        let name = "~peter/mail/\u{53f0}\u{5317}/\u{65e5}\u{672c}\u{8a9e}";
        assert_eq!(encode(name), "~peter/mail/&U,BTFw-/&ZeVnLIqe-");
        assert_eq!(decode(encode(name).as_bytes()).as_deref(), Some(name));
        assert_eq!(encode("Tom & Jerry"), "Tom &- Jerry");
    }

    proptest! {
        #[test]
        fn every_name_comes_back(name in any::<String>()) {
            let wire = encode(&name);
            prop_assert!(wire.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            prop_assert_eq!(decode(wire.as_bytes()), Some(name));
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..40),
            wire in "(&[A-Za-z0-9+,]{0,8}-|&[A-Za-z0-9+,]{3}-|&-|&|[a-z&-]|\u{e9}){0,6}",
        ) {
            for wire in [&bytes[..], wire.as_bytes()] {
                if let Some(name) = decode(wire) {
                    let again = encode(&name);
                    prop_assert_eq!(again.as_bytes(), wire);
                }
            }
        }
    }
}
