//! Limits and time-outs of IMAP sessions.

use std::time::Duration;

use mailapi_imap::server::session::SessionConfig;
use mailapi_imap::token::Limits;

/// Limits of an IMAP session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImapSettings {
    /// Whether a client on this machine may send its password without TLS; other clients never may. Default
    /// true.
    pub plaintext_on_loopback: bool,
    /// Maximum number of concurrent sessions per mailbox. Default 50.
    pub max_connections_per_user: usize,
    /// Number of failed logins that end a connection. Default 3.
    pub max_login_failures: u32,
    /// Delay before the reply to a failed login. Default 2 s.
    pub failed_login_delay: Duration,
    /// Time-out of the login. Default 3 minutes.
    pub login_timeout: Duration,
    /// Time-out of an idle session after login, also in IDLE. Default 30 minutes, which is the minimum (RFC
    /// 3501 section 5.4).
    pub idle_timeout: Duration,
    /// Interval of keep-alive messages in IDLE. Default 2 minutes.
    pub keepalive_interval: Duration,
    /// Time-out of a write. Default 2 minutes.
    pub write_timeout: Duration,
    /// Maximum size of a command in bytes, without literals. Default 64 KiB.
    pub max_line_bytes: usize,
    /// Maximum size in bytes of all literals of a command, without the messages of APPEND. Default 64 KiB.
    pub max_literal_bytes: usize,
    /// Number of consecutive malformed commands that end a connection. Default 20.
    pub max_bad_commands: u32,
    /// Maximum number of different texts in a SEARCH; each is one index query. Default 32.
    pub max_search_texts: usize,
    /// Maximum number of messages that one step of a FETCH reads, so that other sessions are not delayed.
    /// Default 200.
    pub fetch_messages: usize,
    /// A step of a FETCH ends when it has read this many bytes. A single message above it is read on a
    /// blocking thread. Default 128 KiB.
    pub fetch_bytes: usize,
    /// Size of one read from the connection. Default 16 KiB.
    pub read_bytes: usize,
    /// Amount of output that is collected before a write. Default 64 KiB.
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

/// Messages of maximum size that one APPEND may bring (RFC 3502). They are stored in one transaction, for which other
/// writers wait.
const APPENDED_TOGETHER: usize = 2;

/// Size limits of appended messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct MessageLimits {
    pub(super) max_bytes: usize,
    /// A longer message is received in pieces.
    pub(super) piece_bytes: usize,
}

impl ImapSettings {
    /// Returns the configuration of a protocol session.
    pub(super) fn session(&self, has_tls: bool, is_loopback: bool, messages: MessageLimits) -> SessionConfig {
        SessionConfig {
            limits: Limits {
                max_line: self.max_line_bytes,
                max_literal: self.max_literal_bytes,
                max_message: messages.max_bytes,
                message_piece: messages.piece_bytes,
                max_messages_bytes: messages.max_bytes.saturating_mul(APPENDED_TOGETHER),
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
