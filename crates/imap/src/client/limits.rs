//! What a server may make us hold in memory.

use crate::token::Limits;

/// Caps on one response. Bodies that are handed out in pieces do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLimits {
    /// Bytes of text of one response, literals not counted. Default 16 MiB: a search without
    /// ESEARCH (RFC 4731) names each UID on one line.
    pub max_line: usize,
    /// Bytes of all literals of one response. Default 32 MiB.
    pub max_literal: usize,
    /// Levels of parts inside one another that a body structure is followed. What lies deeper
    /// appears as one opaque part. Default 128.
    pub max_depth: usize,
    /// Bytes of all responses to one command, bodies handed out in pieces aside. Default 128 MiB: the sizes or flags of
    /// two million messages.
    pub max_answer: u64,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            max_line: 16 * 1024 * 1024,
            max_literal: 32 * 1024 * 1024,
            max_depth: 128,
            max_answer: 128 * 1024 * 1024,
        }
    }
}

impl ClientLimits {
    /// Every part takes two levels of parentheses at most, and what is in a part a few more.
    const LISTS_IN_A_PART: usize = 8;

    pub(super) fn for_reader(&self) -> Limits {
        Limits {
            max_line: self.max_line,
            max_literal: self.max_literal,
            max_discarded: self.max_answer,
            ..Limits::default()
        }
    }

    pub(super) fn cursor_depth(&self) -> usize {
        self.max_depth * 2 + Self::LISTS_IN_A_PART
    }
}
