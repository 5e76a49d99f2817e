//! Mailbox names and the patterns of LIST.

use std::fmt;

use crate::utf7;

/// The hierarchy delimiter of all mailbox names.
pub const DELIMITER: char = '/';

const INBOX: &str = "INBOX";

/// The name is not a valid mailbox name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid mailbox name")]
pub struct InvalidMailboxName;

/// A mailbox name as Unicode text, with levels separated by [`DELIMITER`].
///
/// The name and each level have at least one character, without control characters. It may have LIST's wildcards, as
/// RFC 3501 section 5.1 permits: rules and imports create such folders, which every client must be able to open. A first
/// level of `inbox` in any case becomes `INBOX` (RFC 3501 section 5.1).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MailboxName(String);

impl MailboxName {
    /// Checks a decoded name. `max_bytes` is [`crate::token::Limits::max_mailbox_name`].
    pub fn new(name: &str, max_bytes: usize) -> Result<Self, InvalidMailboxName> {
        if name.len() > max_bytes || name.contains(char::is_control) || name.split(DELIMITER).any(str::is_empty) {
            return Err(InvalidMailboxName);
        }
        Ok(Self(canonical(name)))
    }

    /// Decodes and checks a name in its wire form, modified UTF-7.
    pub fn from_wire(wire: &[u8], max_bytes: usize) -> Result<Self, InvalidMailboxName> {
        utf7::decode(wire).ok_or(InvalidMailboxName).and_then(|name| Self::new(&name, max_bytes))
    }

    /// Checks a name in the form that clients use after `ENABLE UTF8=ACCEPT` (RFC 6855 section 3).
    pub fn from_utf8(wire: &[u8], max_bytes: usize) -> Result<Self, InvalidMailboxName> {
        std::str::from_utf8(wire).map_err(|_| InvalidMailboxName).and_then(|name| Self::new(name, max_bytes))
    }

    /// Whether a new mailbox may have this name. Names that a file system or another server may resolve as a path
    /// (`~`, `.`, `..`) are rejected.
    pub(crate) fn may_be_new(&self) -> bool {
        !self.0.starts_with('~') && !self.0.split(DELIMITER).any(|level| matches!(level, "." | ".."))
    }

    /// The user's inbox.
    pub fn inbox() -> Self {
        Self(INBOX.to_owned())
    }

    /// Whether this is the user's inbox.
    pub fn is_inbox(&self) -> bool {
        self.0 == INBOX
    }

    /// The name as Unicode text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The wire form, modified UTF-7.
    pub fn to_wire(&self) -> String {
        utf7::encode(&self.0)
    }

    /// The ancestors of this name, nearest first.
    pub fn parents(&self) -> impl Iterator<Item = MailboxName> {
        self.0.rmatch_indices(DELIMITER).map(|(at, _)| Self(self.0[..at].to_owned()))
    }
}

impl fmt::Display for MailboxName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn canonical(name: &str) -> String {
    let first = name.split(DELIMITER).next().unwrap_or_default();
    if first.eq_ignore_ascii_case(INBOX) { format!("{INBOX}{}", &name[first.len()..]) } else { name.to_owned() }
}

/// A pattern of LIST or LSUB, after its reference name: `*` matches any text, `%` any text without the delimiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxPattern(Vec<char>);

impl MailboxPattern {
    /// Decodes the wire form; `None` if it is not modified UTF-7, since it matches no name then.
    pub fn from_wire(wire: &[u8]) -> Option<Self> {
        utf7::decode(wire).map(|pattern| Self::new(&pattern))
    }

    /// Reads the form that clients use after `ENABLE UTF8=ACCEPT`; `None` if it is not UTF-8.
    pub fn from_utf8(wire: &[u8]) -> Option<Self> {
        std::str::from_utf8(wire).ok().map(Self::new)
    }

    fn new(pattern: &str) -> Self {
        let pattern = canonical(pattern);
        let mut chars: Vec<char> = Vec::with_capacity(pattern.len());
        // Collapse runs of wildcards: they match the same names, and matching takes fewer steps.
        for c in pattern.chars() {
            match (chars.last(), c) {
                (Some('*'), '*' | '%') | (Some('%'), '%') => {}
                (Some('%'), '*') => {
                    chars.pop();
                    chars.push(c);
                }
                _ => chars.push(c),
            }
        }
        Self(chars)
    }

    /// Whether the whole name matches. Takes at most (pattern × name) steps: there is no backtracking.
    pub fn matches(&self, name: &MailboxName) -> bool {
        // INBOX matches in any case (RFC 3501 section 5.1).
        let fold = name.is_inbox();
        // reach[i]: the first i pattern characters can match the name read so far.
        let mut reach = self.closure(|i| i == 0);
        for c in name.as_str().chars() {
            let step = |i: usize| {
                let stays = i < self.0.len() && reach[i] && wildcard(self.0[i], c);
                let moves = i > 0 && reach[i - 1] && same(self.0[i - 1], c, fold);
                stays || moves
            };
            reach = self.closure(step);
        }
        reach[self.0.len()]
    }

    /// Computes the reachable positions, then also those after wildcards that match the empty text.
    fn closure(&self, step: impl Fn(usize) -> bool) -> Vec<bool> {
        let mut reach: Vec<bool> = (0..=self.0.len()).map(step).collect();
        for (i, &c) in self.0.iter().enumerate() {
            if reach[i] && matches!(c, '*' | '%') {
                reach[i + 1] = true;
            }
        }
        reach
    }
}

fn wildcard(pattern: char, c: char) -> bool {
    pattern == '*' || (pattern == '%' && c != DELIMITER)
}

fn same(pattern: char, c: char, fold: bool) -> bool {
    if fold { pattern.eq_ignore_ascii_case(&c) } else { pattern == c }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, name: &str) -> bool {
        MailboxPattern::from_wire(pattern.as_bytes()).unwrap().matches(&MailboxName::new(name, 255).unwrap())
    }

    #[test]
    fn ambiguous_names_and_line_breaks_are_refused() {
        for name in ["", "/", "a//b", "/a", "a/", "a\r\nb", "a\0", "a\u{85}b", &"x".repeat(256)] {
            assert_eq!(MailboxName::new(name, 255), Err(InvalidMailboxName), "{name:?}");
        }
    }

    #[test]
    fn names_that_are_paths_to_elsewhere_are_not_given() {
        let may_be_new = |name: &str| MailboxName::new(name, 255).unwrap().may_be_new();
        for name in [".", "..", "a/..", "../a", "a/../b", "a/./b", "~", "~x", "~x/a"] {
            assert!(!may_be_new(name), "{name}");
        }
        for name in ["...", "a..b", ".a", "a.", "a~", "a/~x"] {
            assert!(may_be_new(name), "{name}");
        }
    }

    #[test]
    fn inbox_is_one_mailbox_in_any_case() {
        assert!(MailboxName::from_wire(b"iNbOx", 255).unwrap().is_inbox());
        assert_eq!(MailboxName::new("Inbox/Old", 255).unwrap().as_str(), "INBOX/Old");
        assert!(matches("inb%", "INBOX"));
        assert!(matches("inbox/%", "INBOX/Old"));
        assert!(!matches("work", "Work"));
    }

    #[test]
    fn percent_stops_at_the_delimiter() {
        assert!(matches("*", "a/b/c"));
        assert!(matches("%", "a") && !matches("%", "a/b"));
        assert!(matches("a/%/c", "a/b/c") && !matches("a/%", "a/b/c"));
        assert!(matches("a*c", "a/b/c") && !matches("a*d", "a/b/c"));
        assert!(matches("%*%", "a/b") && matches("a/b*", "a/b"));
    }

    #[test]
    fn a_name_may_have_wildcards() {
        for name in ["50% off", "star*x%y", "*", "%/a"] {
            assert!(matches(name, name) && matches("*", name), "{name}");
        }
        assert!(matches("%", "star*x%y") && !matches("%", "%/a") && !matches("a*b", "*"));
    }

    #[test]
    fn parents_come_nearest_first() {
        let name = MailboxName::new("a/b/c", 255).unwrap();
        let parents: Vec<_> = name.parents().map(|parent| parent.to_string()).collect();
        assert_eq!(parents, ["a/b", "a"]);
    }

    proptest! {
        #[test]
        fn arbitrary_patterns_never_panic(pattern in prop::collection::vec(any::<u8>(), 0..40), name in "[a-c/]{1,20}") {
            let name = MailboxName::new(&name, 255);
            for pattern in [MailboxPattern::from_wire(&pattern), MailboxPattern::from_utf8(&pattern)] {
                if let (Some(pattern), Ok(name)) = (pattern, &name) {
                    pattern.matches(name);
                }
            }
            let _ = MailboxName::from_utf8(&pattern, 255);
        }

        #[test]
        fn a_name_matches_itself(name in "[a-z%* &\u{e9}]{1,9}(/[a-z]{1,3}){0,2}") {
            let name = MailboxName::new(&name, 255).unwrap();
            prop_assert!(MailboxPattern::from_wire(name.to_wire().as_bytes()).unwrap().matches(&name));
            prop_assert!(MailboxPattern::from_utf8(name.as_str().as_bytes()).unwrap().matches(&name));
            prop_assert_eq!(MailboxName::from_utf8(name.as_str().as_bytes(), 255), Ok(name.clone()));
            prop_assert_eq!(MailboxName::from_wire(name.to_wire().as_bytes(), 255).unwrap(), name);
        }
    }
}
