//! Capabilities of a server (RFC 3501 section 7.2.1).

use std::collections::BTreeSet;

/// The capabilities that a server announced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities(BTreeSet<String>);

impl Capabilities {
    pub(super) fn read(words: &str) -> Self {
        Self(words.split_ascii_whitespace().map(str::to_ascii_uppercase).collect())
    }

    /// Whether the server announced this capability; `name` must be in upper case.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Whether literals of any size may be sent without a continuation request (RFC 7888).
    pub(super) fn literal_plus(&self) -> bool {
        self.has("LITERAL+")
    }

    /// Whether literals of up to 4,096 octets may be sent without a continuation request (RFC 7888 section 5).
    pub(super) fn literal_minus(&self) -> bool {
        self.has("LITERAL-") || self.has("IMAP4REV2")
    }
}
