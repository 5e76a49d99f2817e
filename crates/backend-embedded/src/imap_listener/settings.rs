//! Limits and time-outs of IMAP sessions.

use std::time::Duration;

use mailapi_imap::server::session::SessionConfig;
use mailapi_imap::token::Limits;

/// What the IMAP listener allows in one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImapSettings {
    /// Whether a client on the same machine may send its password without TLS; any other never may. Default true.
    pub plaintext_on_loopback: bool,
    /// Most sessions of one mailbox at a time. Default 50.
    pub max_connections_per_user: usize,
    /// How many failed log-ins end a connection. Default 3.
    pub max_login_failures: u32,
    /// How long the answer to a failed log-in is held back. Default 2 s.
    pub failed_login_delay: Duration,
    /// How long a client may take to log in. Default 3 minutes.
    pub login_timeout: Duration,
    /// How long a client that has logged in may be silent, also in IDLE. Default 30 minutes, and not to be less
    /// (RFC 3501 section 5.4).
    pub idle_timeout: Duration,
    /// How often a client in IDLE is told that the connection is alive. Default 2 minutes.
    pub keepalive_interval: Duration,
    /// How long a client may take to read what was written at once. Default 2 minutes.
    pub write_timeout: Duration,
    /// Most octets of one command, literals not counted. Default 64 KiB.
    pub max_line_bytes: usize,
    /// Most octets of all literals of one command, the message of APPEND not counted. Default 64 KiB.
    pub max_literal_bytes: usize,
    /// How many unreadable commands in a row end a connection. Default 20.
    pub max_bad_commands: u32,
    /// Most different texts of one SEARCH; each is a question to the index. Default 32.
    pub max_search_texts: usize,
    /// Most messages that one step of a FETCH reads. Default 200: reading them must not hold up other sessions.
    pub fetch_messages: usize,
    /// A step of a FETCH ends when it has read this much of the messages. What is longer by itself is read on a thread
    /// that may block. Default 128 KiB.
    pub fetch_bytes: usize,
    /// How much is read from the connection at once. Default 16 KiB.
    pub read_bytes: usize,
    /// How much is gathered before it is written to the connection. Default 64 KiB.
    pub write_bytes: usize,
}

impl Default for ImapSettings {
    fn default() -> Self {
        const MINUTE: Duration = Duration::from_secs(60);
        let session = SessionConfig::default();
        Self {
            plaintext_on_loopback: true,
            max_connections_per_user: 50,
            max_login_failures: session.max_login_failures,
            failed_login_delay: Duration::from_secs(2),
            login_timeout: 3 * MINUTE,
            idle_timeout: 30 * MINUTE,
            keepalive_interval: 2 * MINUTE,
            write_timeout: 2 * MINUTE,
            max_line_bytes: session.limits.max_line,
            max_literal_bytes: session.limits.max_literal,
            max_bad_commands: session.max_bad_commands,
            max_search_texts: 32,
            fetch_messages: 200,
            fetch_bytes: 128 * 1024,
            read_bytes: 16 * 1024,
            write_bytes: 64 * 1024,
        }
    }
}

/// How long the messages may be that clients bring.
#[derive(Debug, Clone, Copy)]
pub(super) struct MessageLimits {
    pub(super) max_bytes: usize,
    /// A longer one comes in pieces.
    pub(super) piece_bytes: usize,
}

impl ImapSettings {
    /// The settings of the session's logic.
    pub(super) fn session(&self, has_tls: bool, is_loopback: bool, messages: MessageLimits) -> SessionConfig {
        SessionConfig {
            limits: Limits {
                max_line: self.max_line_bytes,
                max_literal: self.max_literal_bytes,
                max_message: messages.max_bytes,
                message_piece: messages.piece_bytes,
                ..Limits::default()
            },
            starttls: has_tls,
            plaintext_login: is_loopback && self.plaintext_on_loopback,
            max_login_failures: self.max_login_failures,
            max_bad_commands: self.max_bad_commands,
            ..SessionConfig::default()
        }
    }
}
