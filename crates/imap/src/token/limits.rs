//! Limits on the memory that a peer may use.

/// Limits on one command or, on the client's side, one response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of text in one command, without literals. Default 65,536: RFC 7162 section 4 asks servers to accept at
    /// least 8,192, and clients that synchronise large mailboxes send longer sets. A longer command ends the
    /// connection, since finding its end may cost unbounded input.
    pub max_line: usize,
    /// Bytes of all literals of one command, without the messages of APPEND. Default 65,536.
    pub max_literal: usize,
    /// Literals of one command: each takes memory, also without a byte. Default 1,000.
    pub max_literals: usize,
    /// Maximum size of an APPEND message in bytes (APPENDLIMIT, RFC 7889). Default 26,214,400.
    pub max_message: usize,
    /// Messages in one APPEND (RFC 3502). The host stores all or none, so others wait for all of them. Default 100.
    pub max_messages: usize,
    /// Bytes of all messages of one APPEND together, for the same reason. Default 52,428,800.
    pub max_messages_bytes: usize,
    /// Piece size in bytes. Larger messages of an APPEND are returned in pieces of about this size
    /// ([`super::Poll::Keep`]), so that no more of them is in memory. Default: unlimited.
    pub message_piece: usize,
    /// Bytes of rejected non-synchronising literals that are discarded so that the connection can continue; more
    /// end it (RFC 7888 section 4). Default 104,857,600.
    pub max_discarded: u64,
    /// Nesting depth of parentheses, and of NOT and OR in a search. Default 32.
    pub max_depth: usize,
    /// Patterns in one LIST command. Default 32.
    pub max_list_patterns: usize,
    /// Bytes of one LIST pattern with its reference. Default 1,024.
    pub max_pattern: usize,
    /// Bytes of a mailbox name in UTF-8. Default 255.
    pub max_mailbox_name: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_line: 64 * 1024,
            max_literal: 64 * 1024,
            max_literals: 1_000,
            max_message: 25 * 1024 * 1024,
            max_messages: 100,
            max_messages_bytes: 50 * 1024 * 1024,
            message_piece: usize::MAX,
            max_discarded: 100 * 1024 * 1024,
            max_depth: 32,
            max_list_patterns: 32,
            max_pattern: 1024,
            max_mailbox_name: 255,
        }
    }
}
