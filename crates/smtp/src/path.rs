//! The grammar of paths (RFC 5321 section 4.1.2, RFC 6531 section 3.3).
//!
//! The `smtp-proto` parser is not used here. It rejects domain literals, drops the quotes of a local part,
//! which makes `"a@b"@c` ambiguous, and does not distinguish `<postmaster>` from `<>`.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Maximum length of a path in octets, with its angle brackets (RFC 5321 section 4.5.3.1.3). The limit of 64
/// octets for a local part is not enforced: common bounce addresses are longer, and section 4.5.3.1 advises
/// against rejecting them.
const MAX_PATH_BYTES: usize = 256;
/// Maximum length of a domain in octets (RFC 5321 section 4.5.3.1.2).
const MAX_DOMAIN_BYTES: usize = 255;

/// Parses `<…>` at the start of `text`. Returns the canonical address, empty for `<>`, and the text after the
/// closing bracket; `None` if `text` does not start with a path.
pub(crate) fn parse(text: &str) -> Option<(String, &str)> {
    parse_with(text, local_part)
}

/// Like [`parse`], for the sender. Some providers issued local parts such as `u.` or `a..b`, which the
/// grammar allows only in quotes. The result is quoted.
pub(crate) fn parse_sender(text: &str) -> Option<(String, &str)> {
    parse_with(text, |text| local_part(text).or_else(|| unquoted_dots(text)))
}

fn parse_with<'a>(
    text: &'a str,
    local_part: impl Fn(&'a str) -> Option<(String, &'a str)>,
) -> Option<(String, &'a str)> {
    let inner = text.strip_prefix('<')?;
    if let Some(rest) = inner.strip_prefix('>') {
        return Some((String::new(), rest));
    }
    let inner = skip_source_route(inner)?;
    let (local, after_local) = local_part(inner)?;
    let (address, rest) = match after_local.strip_prefix('@') {
        Some(domain) => {
            let end = domain.find('>')?;
            let (domain, rest) = domain.split_at(end);
            if !is_domain(domain) && !is_literal(domain) {
                return None;
            }
            (format!("{local}@{domain}"), &rest[1..])
        }
        // The only mailbox without a domain (RFC 5321 section 4.5.1).
        None if local.eq_ignore_ascii_case("postmaster") => (local, after_local.strip_prefix('>')?),
        None => return None,
    };
    // The limit includes the angle brackets.
    (address.len() + 2 <= MAX_PATH_BYTES).then_some((address, rest))
}

/// Skips a source route, `@one,@two:` before the mailbox. It must be accepted and should be ignored.
fn skip_source_route(text: &str) -> Option<&str> {
    if !text.starts_with('@') {
        return Some(text);
    }
    let (route, rest) = text.split_once(':')?;
    route.split(',').all(|hop| hop.strip_prefix('@').is_some_and(is_domain)).then_some(rest)
}

/// Parses a local part. Returns its canonical form and the rest of the text.
fn local_part(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let (content, rest) = quoted_content(quoted)?;
        return Some((quote_if_needed(&content), rest));
    }
    let end = text.find(['@', '>'])?;
    let (local, rest) = text.split_at(end);
    is_dot_string(local).then(|| (local.to_owned(), rest))
}

/// Parses atoms and dots in any order. Returns them as a quoted local part, and the rest of the text.
fn unquoted_dots(text: &str) -> Option<(String, &str)> {
    let (local, rest) = text.split_at(text.find(['@', '>'])?);
    let fits = !local.is_empty() && local.chars().all(|character| character == '.' || is_atext(character));
    fits.then(|| (quote_if_needed(local), rest))
}

/// Returns the unescaped text up to the closing quote, and the text after the quote.
fn quoted_content(text: &str) -> Option<(String, &str)> {
    let mut content = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((content, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                escaped @ ' '..='~' => content.push(escaped),
                _ => return None,
            },
            character if character.is_control() => return None,
            character => content.push(character),
        }
    }
    None
}

fn quote_if_needed(content: &str) -> String {
    if is_dot_string(content) {
        return content.to_owned();
    }
    let escaped = content.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

fn is_dot_string(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atext))
}

fn is_atext(character: char) -> bool {
    character.is_ascii_alphanumeric()
        || "!#$%&'*+-/=?^_`{|}~".contains(character)
        || (!character.is_ascii() && !character.is_control())
}

fn is_domain(text: &str) -> bool {
    text.len() <= MAX_DOMAIN_BYTES && text.split('.').all(is_label)
}

/// Accepts underscores, which the grammar forbids: host names in real mail contain them.
fn is_label(label: &str) -> bool {
    !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.chars().all(|character| {
            character.is_ascii_alphanumeric()
                || character == '-'
                || character == '_'
                || (!character.is_ascii() && !character.is_control())
        })
}

/// Accepts `[192.0.2.1]` and `[IPv6:2001:db8::1]` (RFC 5321 section 4.1.3); no other tag is registered.
fn is_literal(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else {
        return false;
    };
    match inner.split_at_checked(5) {
        Some((tag, address)) if tag.eq_ignore_ascii_case("IPv6:") => address.parse::<Ipv6Addr>().is_ok(),
        _ => inner.parse::<Ipv4Addr>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_path_is_refused() {
        let too_long = format!("<{}@example.org>", "x".repeat(250));
        for wrong in [
            "",
            "a@b",
            "<a@b",
            "<a>",
            "<@b>",
            "<a@>",
            "<a@@b>",
            "<a@b@c>",
            "<a b@c>",
            "<a..b@c>",
            "<.a@b>",
            "<a.@b>",
            "<a@b..c>",
            "<a@-b>",
            "<a@b.>",
            "<a@[1.2.3]>",
            "<a@[::1]>",
            "<\"a@b>",
            "<\"a\"b@c>",
            "<@a>",
            "<@a:>",
            "<@a b:c@d>",
            "<a@b c>",
            "< a@b>",
            "<a(x)@b>",
            "<a@b,c@d>",
            "<a\\@b@c>",
            "<user@[IPv6:1.2.3.4]>",
            "<\"a\u{7}\"@b>",
            too_long.as_str(),
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_path_comes_back_in_canonical_form() {
        for (given, address) in [
            ("<>", ""),
            ("<ann@example.org>", "ann@example.org"),
            ("<ann+tag@Example.ORG>", "ann+tag@Example.ORG"),
            ("<@relay.example,@b.example:ann@example.org>", "ann@example.org"),
            ("<\"ann\"@example.org>", "ann@example.org"),
            ("<\"ann lee\"@example.org>", "\"ann lee\"@example.org"),
            ("<\"a@b\"@example.org>", "\"a@b\"@example.org"),
            ("<\"a>\\\"\\\\\"@example.org>", "\"a>\\\"\\\\\"@example.org"),
            ("<ann@[192.0.2.1]>", "ann@[192.0.2.1]"),
            ("<ann@[ipv6:2001:db8::1]>", "ann@[ipv6:2001:db8::1]"),
            ("<jürgen@müller.example>", "jürgen@müller.example"),
            ("<Postmaster>", "Postmaster"),
        ] {
            let text = format!("{given} SIZE=1");
            assert_eq!(parse(&text), Some((address.to_owned(), " SIZE=1")), "{given}");
        }
    }

    #[test]
    fn a_sender_may_have_dots_where_a_recipient_may_not() {
        for (given, address) in [
            ("<u.@docomo.example>", "\"u.\"@docomo.example"),
            ("<.u..v@docomo.example>", "\".u..v\"@docomo.example"),
            ("<u.v@docomo.example>", "u.v@docomo.example"),
            ("<u@under_score.example>", "u@under_score.example"),
        ] {
            assert_eq!(parse_sender(given), Some((address.to_owned(), "")), "{given}");
        }
        for wrong in ["<.@>", "<@b>", "<a b.@c>", "<a,.@c>", "<u.>"] {
            assert_eq!(parse_sender(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic_and_canonical_form_is_stable(text in "<?[@a-c\"\\\\.:\\[\\]<> é]{0,24}>?") {
            if let Some((address, _)) = parse(&text) {
                let again = format!("<{address}>");
                prop_assert_eq!(parse(&again), Some((address, "")));
            }
        }
    }
}
