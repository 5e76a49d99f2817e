//! The grammar of SPF policies (RFC 7208 section 12). mail-auth skips terms that it does not know and corrects others, but
//! a policy with a syntax error must match nothing (section 4.6).

use std::net::{Ipv4Addr, Ipv6Addr};

/// Returns the version, the mechanisms and the redirect of a policy, without other modifiers, some of which mail-auth
/// refuses; `None` if the grammar does not allow the policy.
pub(crate) fn decisive(policy: &str) -> Option<String> {
    let is_valid = policy.is_ascii()
        && wrong_term(policy).is_none()
        && ["redirect", "exp"].iter().all(|name| is_once(policy, name));
    let decides =
        |term: &&str| !term.is_empty() && modifier(term).is_none_or(|(name, _)| name.eq_ignore_ascii_case("redirect"));
    let (version, terms) = policy.split_once(' ').unwrap_or((policy, ""));
    is_valid.then(|| std::iter::once(version).chain(terms.split(' ').filter(decides)).collect::<Vec<_>>().join(" "))
}

/// Returns the first term that the grammar does not allow. Only spaces separate terms.
pub(crate) fn wrong_term(policy: &str) -> Option<&str> {
    policy.split(' ').skip(1).find(|term| !term.is_empty() && !is_term(term))
}

/// Returns whether a modifier occurs at most once (section 6).
fn is_once(policy: &str, name: &str) -> bool {
    let is_it = |term: &&str| modifier(term).is_some_and(|(known, _)| known.eq_ignore_ascii_case(name));
    policy.split(' ').filter(is_it).count() <= 1
}

fn is_term(term: &str) -> bool {
    if let Some((name, value)) = modifier(term) {
        return match name.to_ascii_lowercase().as_str() {
            "redirect" | "exp" => is_domain(value, &POLICY_LETTERS),
            _ => is_macro_string(value, &ALL_LETTERS),
        };
    }
    is_mechanism(term.strip_prefix(['+', '-', '~', '?']).unwrap_or(term))
}

/// Splits a modifier at its equals sign. Macros may contain one too, but no mechanism has it before a colon.
fn modifier(term: &str) -> Option<(&str, &str)> {
    let (name, value) = term.split_once('=')?;
    let mut letters = name.bytes();
    let is_name = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    is_name.then_some((name, value))
}

fn is_mechanism(text: &str) -> bool {
    let (name, rest) = text.split_at(text.find([':', '/']).unwrap_or(text.len()));
    let value = rest.strip_prefix(':');
    match (name.to_ascii_lowercase().as_str(), value) {
        ("all", None) => rest.is_empty(),
        ("include" | "exists", Some(domain)) => is_domain(domain, &POLICY_LETTERS),
        ("ptr", None) => rest.is_empty(),
        ("ptr", Some(domain)) => is_domain(domain, &POLICY_LETTERS),
        ("a" | "mx", None) => without_lengths(rest).is_some_and(str::is_empty),
        ("a" | "mx", Some(domain)) => without_lengths(domain).is_some_and(|domain| is_domain(domain, &POLICY_LETTERS)),
        ("ip4", Some(network)) => is_network(network, 32, |address| address.parse::<Ipv4Addr>().is_ok()),
        ("ip6", Some(network)) => is_network(network, 128, |address| address.parse::<Ipv6Addr>().is_ok()),
        _ => false,
    }
}

fn is_network(text: &str, max: u8, is_address: impl Fn(&str) -> bool) -> bool {
    let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    is_address(address) && length.is_none_or(|length| is_length(length, max))
}

/// Returns whether this is the length of a prefix, without leading zeros.
fn is_length(text: &str, max: u8) -> bool {
    let has_leading_zero = text.len() > 1 && text.starts_with('0');
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number && !has_leading_zero && text.parse::<u8>().is_ok_and(|length| length <= max)
}

/// Removes the lengths of prefixes for both families from the end (`dual-cidr-length`); `None` if one is not valid. The
/// last label of a domain has no slash, so every slash outside of macros belongs to them.
fn without_lengths(text: &str) -> Option<&str> {
    let (text, length6) = text.split_once("//").map_or((text, None), |(text, length)| (text, Some(length)));
    if length6.is_some_and(|length| !is_length(length, 128)) {
        return None;
    }
    match text.rsplit_once('/') {
        // A slash within a macro is a delimiter.
        Some((_, end)) if end.contains('}') => Some(text),
        Some((text, length)) => is_length(length, 32).then_some(text),
        None => Some(text),
    }
}

/// The letters of macros in policies; the other three are for explanations only (section 7.2).
const POLICY_LETTERS: [u8; 8] = *b"slodiphv";
const ALL_LETTERS: [u8; 11] = *b"slodiphvcrt";

/// Returns whether this is a `domain-spec`: a macro string that ends with a macro, or with a label that is not a number.
fn is_domain(text: &str, letters: &[u8]) -> bool {
    if !is_macro_string(text, letters) {
        return false;
    }
    if text.ends_with('}') || ["%%", "%_", "%-"].iter().any(|end| text.ends_with(end)) {
        return true;
    }
    let text = text.strip_suffix('.').unwrap_or(text);
    // The dot may follow a macro, but something has to come before it.
    text.rsplit_once('.').is_some_and(|(before, label)| !before.is_empty() && is_top_label(label))
}

fn is_top_label(label: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !label.is_empty()
        && label.bytes().all(is_allowed)
        && !label.starts_with('-')
        && !label.ends_with('-')
        && !label.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_macro_string(text: &str, letters: &[u8]) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        if !rest[..at].bytes().all(is_literal) {
            return false;
        }
        rest = &rest[at + 1..];
        rest = match rest.as_bytes().first() {
            Some(b'%' | b'_' | b'-') => &rest[1..],
            Some(b'{') => match rest[1..].split_once('}') {
                Some((inner, after)) if is_macro(inner, letters) => after,
                _ => return false,
            },
            _ => return false,
        };
    }
    rest.bytes().all(is_literal)
}

const fn is_literal(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'%'
}

/// Returns whether this is the inner part of a macro: a letter, digits, `r` and delimiters.
fn is_macro(text: &str, letters: &[u8]) -> bool {
    let is_letter = |letter: char| u8::try_from(letter).is_ok_and(|byte| letters.contains(&byte.to_ascii_lowercase()));
    let Some(rest) = text.strip_prefix(is_letter) else { return false };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    // Zero labels are none (section 7.3).
    let has_labels = digits == 0 || rest[..digits].bytes().any(|digit| digit != b'0');
    let rest = &rest[digits..];
    let rest = rest.strip_prefix(['r', 'R']).unwrap_or(rest);
    has_labels && rest.bytes().all(|byte| b".-+,/_=".contains(&byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn terms_that_the_grammar_does_not_allow_are_found() {
        for term in [
            "a/33",
            "mx/33",
            "a//129",
            "a/",
            "a//",
            "a/024",
            "a/24/64",
            "ip4:127.0.0.0/08",
            "ip4:127.0.0",
            "ip4:",
            "ip4",
            "ip4:192.0.2.1//8",
            "ip6:2001:db8::/129",
            "ip6:192.0.2.1",
            "a:mail",
            "a:",
            "exists:1.2",
            "a:127.0.0.5",
            "a:mail.example:25",
            "mx:mail.example-",
            "mx:mail.-example",
            "include",
            "include:",
            "all:x",
            "all/8",
            "ptr/8",
            "exists:a.example/8",
            "~redirect=a.example",
            "-exp=a.example",
            "redirect=",
            "redirect=a",
            "=x",
            "1x=y",
            "moo",
            "a:%{x}",
            "a:%{c}",
            "a:%{d0}.example",
            "a:%(d)",
            "a:%",
            "a:%{d",
            "moo=%",
            "a:b\u{7f}.example",
            "++all",
            "all=x%",
            "a:b\t.example",
            ".",
            "a:.example",
        ] {
            assert_eq!(wrong_term(&format!("v=spf1 mx {term} -all")), Some(term), "{term}");
        }
        for policy in [
            "v=spf1 ip4:192.0.2.1\t-all",
            "v=spf1 a:bücher.example -all",
            "v=spf1 x=ü",
            "v=spf1 redirect=a.b redirect=a.b",
        ] {
            assert_eq!(decisive(policy), None, "{policy}");
        }
    }

    #[test]
    fn terms_of_common_policies_are_allowed() {
        for term in [
            "all",
            "-ALL",
            "~all",
            "?all",
            "a",
            "MX",
            "a/24",
            "mx//64",
            "a/0//0",
            "a:mail.example",
            "a:mail.example./24//64",
            "mx:%{d}/32",
            "include:_spf.example.org",
            "ip4:192.0.2.0/24",
            "+ip4:0.0.0.0/0",
            "ip6:2001:db8::/32",
            "ip6:::ffff:192.0.2.1",
            "ptr",
            "ptr:example.org",
            "exists:%{ir}.%{v}._spf.%{d2}",
            "exists:%{l1r-}.%{o}",
            "exists:%{s}%%%_%-.example",
            "redirect=_spf.example.org",
            "exp=explain._spf.%{d}",
            "moo=",
            "a=",
            "moo=%{c}%{t}",
            "x-y.z_1=a=b:c/d",
            "a:x_y.example",
            "a:1.2.3.4.example",
            "a:xn--bcher-kva.example",
            "exists:%{i/}.example",
            "a:%{d/}/24",
        ] {
            assert_eq!(wrong_term(&format!("v=spf1  {term}  -all ")), None, "{term}");
        }
        assert_eq!(decisive("v=spf1 mx exp=a.b Redirect=a.b x=").as_deref(), Some("v=spf1 mx Redirect=a.b"));
        assert_eq!(decisive("V=SPF1").as_deref(), Some("V=SPF1"));
    }

    proptest! {
        #[test]
        fn any_policy_is_allowed_or_not(policy in "v=spf1( [+~?-]?(a|mx|ip4|exp|%|\\{|\\}|:|/|=|\\.|[0-9a-z]|\\PC){0,12}){0,4}") {
            if let Some(text) = decisive(&policy) {
                prop_assert_eq!(decisive(&text), Some(text));
            }
        }
    }
}
