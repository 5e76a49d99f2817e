//! What a peer may make us hold in memory.

/// Caps on one command (or, on the client's side, one response).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of text in one command, literals not counted. Default 65,536: RFC 7162 section 4 asks
    /// servers for at least 8,192, and clients that synchronise large folders send longer sets.
    /// A longer command ends the connection, since its end cannot be known cheaply.
    pub max_line: usize,
    /// Bytes of all literals of one command together, the message of APPEND aside. Default 65,536.
    pub max_literal: usize,
    /// Bytes of the message that APPEND may bring (APPENDLIMIT, RFC 7889). Default 26,214,400.
    pub max_message: usize,
    /// A message of APPEND that has more bytes than this comes in pieces of about this length
    /// ([`super::Poll::Keep`]), so that no more of it is held. Default: no limit, it comes as a whole.
    pub message_piece: usize,
    /// Bytes of refused non-synchronising literals that are read and thrown away so that the
    /// connection can go on; beyond this it ends (RFC 7888 section 4). Default 104,857,600.
    pub max_discarded: u64,
    /// Levels of parentheses, and of NOT and OR in a search. Default 32.
    pub max_depth: usize,
    /// Patterns in one LIST command. Default 32.
    pub max_list_patterns: usize,
    /// Bytes of one LIST pattern together with its reference. Default 1,024.
    pub max_pattern: usize,
    /// Bytes of a mailbox name, as UTF-8. Default 255.
    pub max_mailbox_name: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_line: 64 * 1024,
            max_literal: 64 * 1024,
            max_message: 25 * 1024 * 1024,
            message_piece: usize::MAX,
            max_discarded: 100 * 1024 * 1024,
            max_depth: 32,
            max_list_patterns: 32,
            max_pattern: 1024,
            max_mailbox_name: 255,
        }
    }
}
