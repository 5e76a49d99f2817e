//! What the server can do (RFC 3501 section 7.2.1).

use std::collections::BTreeSet;

/// The capabilities that a server told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities(BTreeSet<String>);

impl Capabilities {
    pub(super) fn read(words: &str) -> Self {
        Self(words.split_ascii_whitespace().map(str::to_ascii_uppercase).collect())
    }

    /// True when the server told this one; `name` in upper case.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// True when literals need not wait for a continuation request, whatever their size (RFC 7888).
    pub(super) fn literal_plus(&self) -> bool {
        self.has("LITERAL+")
    }

    /// True when those of up to 4,096 octets need not wait (RFC 7888 section 5).
    pub(super) fn literal_minus(&self) -> bool {
        self.has("LITERAL-") || self.has("IMAP4REV2")
    }
}
