//! Extracts the text of an HTML body for searches and excerpts.
//!
//! Uses one pass and bounded memory, regardless of nesting. A few kilobytes of unclosed tags can keep a tree
//! builder busy for minutes, or exhaust the memory. The result is never shown as HTML.

use mail_parser::decoders::html::html_to_text as decode_entities;

/// Inline elements: their tags do not separate words.
const INLINE: [&str; 27] = [
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "del", "em", "font", "i", "ins", "kbd", "label", "mark",
    "nobr", "q", "s", "small", "span", "strong", "sub", "sup", "tt", "u", "wbr",
];

/// Elements whose content is not text of the body.
const UNSEEN: [&str; 4] = ["script", "style", "template", "title"];

/// Length of the longest entity: `&CounterClockwiseContourIntegral;`.
const MAX_ENTITY: usize = 33;

/// Number of bytes in which a page names its charset (HTML, section 4.2.5.4).
const CHARSET_WITHIN: usize = 1024;

/// Returns the charset that a page names in a `meta` element. It may not be one in which the element could not be read.
pub(super) fn charset_of(page: &[u8]) -> Option<String> {
    let beginning = page[..page.len().min(CHARSET_WITHIN)].to_ascii_lowercase();
    let mut rest = beginning.as_slice();
    while let Some(at) = memchr::memmem::find(rest, b"<meta") {
        let tag = &rest[at + b"<meta".len()..];
        let tag = &tag[..memchr::memchr(b'>', tag).unwrap_or(tag.len())];
        let is_named = tag.first().is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'/');
        if let Some(name) = charset_in(tag).filter(|name| is_named && !name.starts_with("utf-16")) {
            return Some(name);
        }
        rest = &rest[at + 1..];
    }
    None
}

fn charset_in(tag: &[u8]) -> Option<String> {
    let at = memchr::memmem::find(tag, b"charset")?;
    let value = tag[at + b"charset".len()..].trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let value = value.strip_prefix(b"\"").or_else(|| value.strip_prefix(b"'")).unwrap_or(value);
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || b"\"';,/".contains(byte);
    let name = &value[..value.iter().position(is_end).unwrap_or(value.len())];
    std::str::from_utf8(name).ok().filter(|name| !name.is_empty()).map(ToOwned::to_owned)
}

/// Returns a text as HTML, with its lines.
pub(super) fn of_text(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<pre>{escaped}</pre>\n")
}

/// Returns the text between the tags, with decoded entities.
#[must_use]
pub fn text_of(html: &str) -> String {
    let mut text = String::with_capacity(html.len() / 2);
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        push_text(&mut text, &rest[..at]);
        rest = after_markup(&rest[at..], &mut text);
    }
    push_text(&mut text, rest);
    text
}

/// Returns the text after the markup at the start of `html`; consumes at least one character.
fn after_markup<'a>(html: &'a str, text: &mut String) -> &'a str {
    let inside = &html[1..];
    if let Some(comment) = inside.strip_prefix("!--") {
        return after(comment, "-->");
    }
    let is_end = inside.starts_with('/');
    let name_at = usize::from(is_end);
    match inside.as_bytes().get(name_at) {
        Some(first) if first.is_ascii_alphabetic() => {}
        Some(b'!' | b'?') => return after(inside, ">"),
        _ if is_end => return after(inside, ">"),
        _ => {
            // A `<` that starts no markup is text.
            text.push('<');
            return inside;
        }
    }
    let tag = &inside[name_at..];
    let name_end = tag.find(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>').unwrap_or(tag.len());
    let (name, attributes) = tag.split_at(name_end);
    let name = name.to_ascii_lowercase();
    // Block elements separate words.
    if !INLINE.contains(&name.as_str()) {
        text.push(' ');
    }
    let content = after_attributes(attributes);
    if !is_end && UNSEEN.contains(&name.as_str()) { from_end_tag(content, &name) } else { content }
}

fn after<'a>(html: &'a str, end: &str) -> &'a str {
    html.find(end).map_or("", |at| &html[at + end.len()..])
}

/// Returns the text after the `>` that ends a tag. A `>` in a quoted value does not end it, unless the quote
/// is never closed.
fn after_attributes(attributes: &str) -> &str {
    let (mut quote, mut is_value) = (None, false);
    for (at, byte) in attributes.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'>') => return &attributes[at + 1..],
            (None, b'"' | b'\'') if is_value => quote = Some(byte),
            (None, _) => {}
        }
        is_value = byte == b'=' || (is_value && byte.is_ascii_whitespace());
    }
    // The quote is never closed, so ignore it.
    after(attributes, ">")
}

/// Returns the text from the end tag of an invisible element; nothing if it never ends, as in browsers.
fn from_end_tag<'a>(content: &'a str, name: &str) -> &'a str {
    let is_end = |at: usize| {
        let tag = content.as_bytes().get(at + 2..at + 2 + name.len());
        tag.is_some_and(|tag| tag.eq_ignore_ascii_case(name.as_bytes()))
    };
    content.match_indices("</").map(|(at, _)| at).find(|&at| is_end(at)).map_or("", |at| &content[at..])
}

fn push_text(text: &mut String, raw: &str) {
    let mut rest = raw;
    while let Some(at) = rest.find('&') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let inside = rest.bytes().skip(1).take(MAX_ENTITY).take_while(|b| b.is_ascii_alphanumeric() || *b == b'#');
        let end = 1 + inside.count();
        // Without a semicolon it is not an entity.
        if rest.as_bytes().get(end) == Some(&b';') {
            text.push_str(&decode_entities(&rest[..=end]));
            rest = &rest[end + 1..];
        } else {
            text.push('&');
            rest = &rest[1..];
        }
    }
    text.push_str(rest);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::fields::one_line;
    use super::*;

    fn shown(html: &str) -> String {
        one_line(&text_of(html))
    }

    #[test]
    fn what_a_reader_does_not_see_is_no_text() {
        assert_eq!(shown("<style type='text/css'>p > a { }</style>a<script>if (1<2) x()</SCRIPT >b"), "a b");
        assert_eq!(shown("a<!-- <p>no --> b<!doctype html><?xml no?>c</>d"), "a bcd");
        assert_eq!(shown("<title>no</title><a title=\"1 > 0\" href='<b>'>yes</a>"), "yes");
    }

    #[test]
    fn words_are_separated_as_they_are_shown() {
        assert_eq!(shown("<td>one</td><td>two</td><p>th<b>re</b>e<br>four"), "one two three four");
    }

    #[test]
    fn entities_are_decoded_and_lone_signs_stay() {
        assert_eq!(
            shown("caf&eacute; &#8364;&#x20ac;&nbsp;&lt;b&gt; AT&T a < b &nosuch; &"),
            "café €€ <b> AT&T a < b &nosuch; &"
        );
    }

    #[test]
    fn unclosed_markup_ends_with_the_text() {
        assert_eq!(shown("a<!-- b"), "a");
        assert_eq!(shown("a<p title=\"b>c"), "a c");
        assert_eq!(shown("a<script>b"), "a");
        assert_eq!(shown("a<"), "a<");
        assert_eq!(shown(&format!("{}deep", "<div><b>".repeat(100_000))), "deep");
    }

    proptest! {
        #[test]
        fn any_text_is_read(html in "(<|>|</|<!--|-->|&|;|#|style|b|é| |=|\"|'|\\PC){0,60}") {
            let _ = text_of(&html);
        }
    }
}
