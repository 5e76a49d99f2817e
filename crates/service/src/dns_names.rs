//! Which texts are names in DNS.

/// Returns the name without its final dot.
pub(crate) fn plain(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

/// Returns whether a text is a name that the DNS can look up (RFC 1035 section 2.3.4), with underscores.
pub(crate) fn is_name(name: &str) -> bool {
    let name = plain(name);
    let fits = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    name.len() <= 253 && name.split('.').all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_server_can_look_up_is_no_name() {
        let long = "a".repeat(64);
        let longest = vec!["abcdefghi"; 26].join(".");
        for text in ["", ".", "a..b", ".a", "a b.example", "é.example", "a\0.example", &long, &longest] {
            assert!(!is_name(text), "{text:?}");
        }
        for text in ["example.org", "example.org.", "s1._domainkey.example.org", "A-1", &longest[..253]] {
            assert!(is_name(text), "{text:?}");
        }
    }
}
