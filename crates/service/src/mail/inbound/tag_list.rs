//! Lists of tags in signatures and keys (RFC 6376 section 3.2).

use std::collections::HashSet;

/// Reads a list of tags; `None` if it is not valid, as with a tag that occurs twice.
pub(super) fn tags(text: &str) -> Option<Vec<(&str, &str)>> {
    let text = trimmed(text);
    let text = text.strip_suffix(';').unwrap_or(text);
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for part in text.split(';') {
        let (name, value) = part.split_once('=')?;
        let (name, value) = (trimmed(name), trimmed(value));
        if name.is_empty() || !seen.insert(name) {
            return None;
        }
        all.push((name, value));
    }
    Some(all)
}

/// Removes the white space around a name or a value; it may include line ends.
pub(super) fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}
