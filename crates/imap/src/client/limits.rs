//! Limits on the memory that a server's responses may use.

use crate::token::Limits;

/// Limits on responses. Streamed bodies do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLimits {
    /// Bytes of text in one response, without literals. Default 16 MiB: a search without ESEARCH (RFC 4731)
    /// returns all UIDs on one line.
    pub max_line: usize,
    /// Bytes of all literals in one response. Default 32 MiB.
    pub max_literal: usize,
    /// Nesting depth to which a body structure is read; a deeper part becomes opaque. Default 128.
    pub max_depth: usize,
    /// Bytes of all responses to one command, without streamed bodies. Default 128 MiB: the sizes or flags of two
    /// million messages.
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
    /// Literals of one response. A server may write each name and address of a message as one.
    const LITERALS: usize = 20_000;
    /// Parentheses inside the innermost part. Every level of parts takes two more at most.
    const LISTS_IN_A_PART: usize = 8;

    pub(super) fn for_reader(&self) -> Limits {
        Limits {
            max_line: self.max_line,
            max_literal: self.max_literal,
            max_literals: Self::LITERALS,
            max_discarded: self.max_answer,
            ..Limits::default()
        }
    }

    pub(super) fn cursor_depth(&self) -> usize {
        self.max_depth * 2 + Self::LISTS_IN_A_PART
    }
}
