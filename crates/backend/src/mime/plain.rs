//! Described parts whose words need no decoding: these become parts without a header that is written and parsed.

use super::described::{DescribedParameter, DescribedPart};
use super::encoded_word;
use super::fields::{self, Parameterized};
use super::limits::Limits;
use super::structure::Part;
use super::transfer::TransferEncoding;

/// Returns whether [`part`] can convert a description directly, without parsing its original field.
pub(super) fn is_plain_part(described: &DescribedPart, limits: &Limits) -> bool {
    let fits = |value: &str, parameters: &[DescribedParameter]| {
        // The syntax around a parameter: `; `, the equals sign, two quotes.
        const AROUND: usize = 5;
        let bytes = |(name, value): &DescribedParameter| name.len() + value.len() + AROUND;
        let is_plain = |(name, value): &DescribedParameter| is_name(name) && is_quotable(value);
        is_word(value)
            && parameters.iter().all(is_plain)
            && value.len() + parameters.iter().map(bytes).sum::<usize>() <= limits.max_parameter_bytes / 2
    };
    let is_one_line = |text: &[u8]| !text.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
    is_word(&described.media_type)
        && fits(&described.subtype, &described.parameters)
        && described.disposition.as_ref().is_none_or(|(kind, parameters)| fits(kind, parameters))
        && described.content_id.as_deref().is_none_or(is_one_line)
        && described.encoding.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Converts a plain description into a part, without position and without children.
pub(super) fn part(described: DescribedPart) -> Part {
    let DescribedPart { mut media_type, subtype, parameters, disposition, content_id, encoding, .. } = described;
    media_type.push('/');
    media_type.push_str(&subtype);
    let content_type = lower(media_type, parameters);
    Part {
        header: 0..0,
        body: 0..0,
        media_type: content_type.value.clone(),
        content_type,
        disposition: disposition.map(|(kind, parameters)| lower(kind, parameters)).unwrap_or_default(),
        content_id: content_id.as_deref().and_then(fields::identifier),
        encoding: TransferEncoding::named(&encoding),
        has_parts: false,
        level: 0,
        is_blank: false,
    }
}

fn lower(mut value: String, parameters: Vec<DescribedParameter>) -> Parameterized {
    value.make_ascii_lowercase();
    let parameter = |(mut name, value): DescribedParameter| {
        name.make_ascii_lowercase();
        (name, String::from_utf8(value).unwrap_or_default())
    };
    Parameterized { value, parameters: parameters.into_iter().map(parameter).collect() }
}

/// Returns whether a text is printable ASCII without control characters, tabs included. Without an early
/// exit, several bytes are checked per step.
pub(super) fn is_printable(text: &[u8]) -> bool {
    text.iter().fold(true, |so_far, byte| so_far & matches!(byte, b' '..=b'~'))
}

/// Returns whether two spaces follow each other, without an early exit. A space beside NUL counts too: one operation less
/// for each byte.
pub(super) fn has_two_spaces(text: &[u8]) -> bool {
    let next = text.get(1..).unwrap_or_default();
    text.iter().zip(next).fold(false, |so_far, (byte, next)| so_far | (byte | next == b' '))
}

/// Returns whether a text is a token (RFC 2045 section 5.1) without special meaning in any field of mail and
/// HTTP.
pub(super) fn is_word(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+');
    !text.is_empty() && text.bytes().all(is_plain)
}

/// Returns whether a text is a parameter name without the asterisk of RFC 2231.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Returns whether a text means itself between quotes: printable, without escapes and encoded words.
fn is_quotable(text: &[u8]) -> bool {
    let has_escapes = || text.iter().any(|byte| matches!(byte, b'"' | b'\\'));
    !text.is_empty() && is_printable(text) && !has_escapes() && !encoded_word::may_begin_in(text)
}
