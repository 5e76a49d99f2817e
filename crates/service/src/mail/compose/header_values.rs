//! Encodes values of header fields so that they arrive unchanged, even if they look like encoded words.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use mail_builder::headers::HeaderType;
use mail_builder::headers::address::Address;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::raw::Raw;
use mail_builder::headers::text::Text;
use mailapi_model::NamedAddress;

/// Bytes of text per encoded word. With its frame and the name of most fields, the line stays within 76 characters
/// (RFC 2047 section 2).
const WORD_BYTES: usize = 30;

/// Maximum length of text without a space, where a line cannot be folded. A line has at most 998 bytes,
/// including the field name (RFC 5322 section 2.1.1).
const MAX_UNFOLDED_BYTES: usize = 900;

/// Length of a value that is not folded, if its field name has a usual length.
const SHORT_BYTES: usize = 60;

/// Encodes human-readable text, such as a subject.
pub(super) fn text(text: &str) -> HeaderType<'_> {
    if needs_encoded_words(text) { Raw::new(encoded_words(text)).into() } else { Text::new(text).into() }
}

/// Encodes the people of an address field. Many readers decode encoded words even within quotes, contrary to RFC
/// 2047 section 5, so names that look like one are encoded.
pub(super) fn people(list: &[NamedAddress]) -> HeaderType<'_> {
    if list.iter().filter_map(|person| person.name.as_deref()).any(looks_encoded) {
        return Raw::new(list.iter().map(with_encoded_name).collect::<Vec<_>>().join(",\r\n ")).into();
    }
    match list {
        [one] => plain(one).into(),
        several => Address::new_list(several.iter().map(plain).collect()).into(),
    }
}

fn plain(person: &NamedAddress) -> Address<'_> {
    Address::new_address(person.name.as_deref(), person.address.wire())
}

fn with_encoded_name(person: &NamedAddress) -> String {
    match &person.name {
        Some(name) => format!("{} <{}>", encoded_words(name), person.address.wire()),
        None => format!("<{}>", person.address.wire()),
    }
}

/// Encodes the value of an unknown field. Programs may read it, such as List-Unsubscribe, and do not decode encoded
/// words. It is therefore encoded only if it could not arrive otherwise.
pub(super) fn unknown(value: &str) -> HeaderType<'_> {
    let folds = || value.split(' ').all(|atom| atom.len() <= MAX_UNFOLDED_BYTES);
    let fits = value.len() <= SHORT_BYTES || folds();
    if value.is_ascii() && fits && !value.ends_with(' ') && !needs_encoded_words(value) {
        Raw::new(value).into()
    } else {
        text(value)
    }
}

/// Whether the text would not arrive unchanged. Readers drop a leading space, and some merge spaces where a line is
/// folded.
fn needs_encoded_words(text: &str) -> bool {
    text.starts_with(' ') || (text.len() > SHORT_BYTES && text.contains("  ")) || looks_encoded(text)
}

/// Whether readers may see an encoded word (RFC 2047 section 2). Many accept any text between its start and its
/// end.
fn looks_encoded(text: &str) -> bool {
    text.find("=?").is_some_and(|start| text[start + 2..].contains("?="))
}

/// Encodes the text as encoded words of whole characters (RFC 2047 section 5), one per line.
fn encoded_words(mut text: &str) -> String {
    let mut words = String::new();
    while !text.is_empty() {
        let (word, rest) = text.split_at(text.floor_char_boundary(WORD_BYTES));
        if !words.is_empty() {
            words.push_str("\r\n ");
        }
        words.push_str("=?utf-8?B?");
        BASE64.encode_string(word, &mut words);
        words.push_str("?=");
        text = rest;
    }
    words
}

/// Adds a parameter. A value that looks like an encoded word is split inside its markers into sections, which
/// readers join again (RFC 2231 section 3). Many readers decode such words here too, although they must not.
pub(super) fn with_parameter<'x>(field: ContentType<'x>, name: &str, value: Cow<'x, str>) -> ContentType<'x> {
    // The builder encodes non-ASCII values as a whole.
    if !value.is_ascii() || !looks_encoded(&value) {
        return field.attribute(name.to_owned(), value);
    }
    let (mut field, mut number, mut start) = (field, 0_usize, 0);
    let cuts: Vec<usize> = value.match_indices("=?").map(|(at, _)| at + 1).chain([value.len()]).collect();
    for end in cuts {
        field = field.attribute(format!("{name}*{number}"), value[start..end].to_owned());
        (start, number) = (end, number + 1);
    }
    field
}

/// Adds the file name as a parameter of the media type, if it is not ASCII. Old Outlook reads encoded words there, as many
/// programs write them against RFC 2047 section 5, and does not know the form of RFC 2231.
pub(super) fn with_name<'x>(field: ContentType<'x>, filename: &str) -> ContentType<'x> {
    // Sections of RFC 2231 have a number after the name.
    let is_name = |parameter: &str| parameter.split('*').next().is_some_and(|name| name.eq_ignore_ascii_case("name"));
    let is_named = field.attributes.iter().any(|(parameter, _)| is_name(parameter));
    if filename.is_ascii() || is_named {
        return field;
    }
    // The builder folds quoted text at spaces. Readers drop a space between two encoded words.
    field.attribute("name", encoded_words(filename).replace("\r\n", ""))
}

/// A media type with its given parameters; anything that is not `name=value` is omitted.
pub(super) fn content_type(text: &str) -> ContentType<'_> {
    let (essence, mut rest) = text.split_once(';').unwrap_or((text, ""));
    let mut field = ContentType::new(essence.trim());
    while !rest.is_empty() {
        let end = rest.find(['=', ';']).unwrap_or(rest.len());
        let (name, behind) = (rest[..end].trim(), &rest[end..]);
        let Some(behind) = behind.strip_prefix('=') else {
            rest = behind.strip_prefix(';').unwrap_or_default();
            continue;
        };
        let (value, behind) = parameter_value(behind.trim_start());
        if is_parameter_name(name) {
            field = with_parameter(field, name, value);
        }
        rest = behind;
    }
    field
}

/// Whether the name is valid by RFC 2045 section 5.1; sections of RFC 2231 are included.
fn is_parameter_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&byte))
}

/// Splits off a value without its quotes; returns the text after its semicolon too.
fn parameter_value(text: &str) -> (Cow<'_, str>, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, rest) = text.split_once(';').unwrap_or((text, ""));
        return (value.trim().into(), rest);
    };
    let mut value = String::new();
    let mut characters = quoted.chars();
    while let Some(c) = characters.next() {
        match c {
            '"' => break,
            '\\' => value.extend(characters.next()),
            c => value.push(c),
        }
    }
    let rest = characters.as_str().split_once(';').map_or("", |(_, rest)| rest);
    (value.into(), rest)
}
