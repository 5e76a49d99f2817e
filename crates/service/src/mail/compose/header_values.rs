//! Values of header fields that arrive as they were given, even those that a reader would take for encoded ones.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use mail_builder::headers::HeaderType;
use mail_builder::headers::address::Address;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::raw::Raw;
use mail_builder::headers::text::Text;
use mailapi_model::NamedAddress;

/// How much of a text one encoded word holds. With what stands around it and the name of most fields before it, it
/// stays within the 76 characters of a line (RFC 2047 section 2).
const WORD_OCTETS: usize = 30;

/// The longest stretch that is left as it is where no line may end; a line has at most 998 octets (RFC 5322 section
/// 2.1.1), the field's name included.
const MAX_UNFOLDED_OCTETS: usize = 900;

/// A value that stays on the line of its name, if that has a usual length.
const SHORT_OCTETS: usize = 60;

/// A text for people, such as a subject.
pub(super) fn text(text: &str) -> HeaderType<'_> {
    if needs_encoded_words(text) { Raw::new(encoded_words(text)).into() } else { Text::new(text).into() }
}

/// The people of an address field. Many readers decode what looks like an encoded word inside of quotes too, although
/// they must not (RFC 2047 section 5), so such a name is encoded.
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

/// The value of a field of which nothing is known. It may be for programs, such as a List-Unsubscribe, where an encoded
/// word means nothing; so it is encoded only where it could not arrive otherwise.
pub(super) fn unknown(value: &str) -> HeaderType<'_> {
    let folds = || value.split(' ').all(|atom| atom.len() <= MAX_UNFOLDED_OCTETS);
    let fits = value.len() <= SHORT_OCTETS || folds();
    if value.is_ascii() && fits && !value.ends_with(' ') && !needs_encoded_words(value) {
        Raw::new(value).into()
    } else {
        text(value)
    }
}

/// A space at the beginning would be taken for the one behind the colon, and where a line is folded some readers make
/// one space of several.
fn needs_encoded_words(text: &str) -> bool {
    text.starts_with(' ') || (text.len() > SHORT_OCTETS && text.contains("  ")) || looks_encoded(text)
}

/// Whether readers may see an encoded word in it (RFC 2047 section 2): they are generous about what stands between its
/// beginning and its end.
fn looks_encoded(text: &str) -> bool {
    text.find("=?").is_some_and(|start| text[start + 2..].contains("?="))
}

/// The text in words of whole characters (RFC 2047 section 5), each on a line of its own.
fn encoded_words(mut text: &str) -> String {
    let mut words = String::new();
    while !text.is_empty() {
        let (word, rest) = text.split_at(text.floor_char_boundary(WORD_OCTETS));
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

/// Adds a parameter. A value that looks like an encoded word is cut between the signs that make it one, into sections
/// that readers put together again (RFC 2231 section 3): many decode such words here too, although they must not.
pub(super) fn with_parameter<'x>(field: ContentType<'x>, name: &str, value: Cow<'x, str>) -> ContentType<'x> {
    // What is not ASCII the builder encodes as a whole.
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

/// A media type with its parameters as they were given; one that is no `name=value` is left out.
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

/// RFC 2045 section 5.1; with the sections of RFC 2231 in it.
fn is_parameter_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|octet| octet.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&octet))
}

/// A value, out of its quotes, and what stands behind its semicolon.
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
