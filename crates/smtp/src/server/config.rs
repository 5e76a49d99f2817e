//! Settings of server sessions.

use super::budget::MessageBudget;

/// Settings of a server session. `Config::new` sets the defaults named at each field.
#[derive(Debug, Clone)]
pub struct Config {
    /// Host name in the greeting and in the reply to EHLO.
    pub hostname: String,
    /// Inbound mail or submission by our own users.
    pub role: Role,
    /// Whether STARTTLS is offered. Default: no.
    pub tls_available: bool,
    /// Maximum message size in bytes after dot-unstuffing, announced by SIZE. Default: 50 MiB.
    pub max_message_bytes: usize,
    /// Maximum number of recipients of a message; further recipients get a temporary failure (RFC 5321 section
    /// 4.5.3.1.10). Section 4.5.3.1.8 requires at least 100. So do recipients beyond 256 KiB. Default: 1000.
    pub max_recipients: usize,
    /// Maximum length of a command line in bytes, with its CRLF. RFC 5321 section 4.5.3.1.4 requires 512, and
    /// extensions add to it. Default: 2048.
    pub max_line_bytes: usize,
    /// Maximum length of a line of an AUTH exchange in bytes, with its CRLF (RFC 4954 section 4). Default:
    /// 12288.
    pub max_auth_line_bytes: usize,
    /// Maximum number of bad commands (unknown, malformed, out of order, wrong password), after which the
    /// session ends with 421. An accepted message resets the count. Default: 20.
    pub max_errors: u32,
    /// Maximum number of recipients refused with 5xx, after which the session ends with 421. Further refusals
    /// would only reveal which addresses exist. Refusals of an authenticated client do not count. Default:
    /// 100.
    pub max_refused_recipients: u32,
    /// Maximum number of idle commands (NOOP, RSET, VRFY, HELP, EHLO, HELO), after which the session ends
    /// with 421. An accepted message resets the count. Default: 100.
    pub max_idle_commands: u32,
    /// Memory limit for messages and envelopes being received, over all sessions that share it. A message or
    /// recipient above it is refused with 452 4.3.1. Default: no limit.
    pub budget: Option<MessageBudget>,
    /// A message longer than this, in bytes, is streamed in pieces of about this length
    /// ([`super::Step::Keep`]), so that no session holds more. Default: no limit; each message is returned as
    /// a whole.
    pub piece_bytes: usize,
    /// Spare capacity in bytes after a message. The host can prepend header fields without copying the
    /// message into a larger buffer. Default: 1024.
    pub spare_bytes: usize,
}

impl Config {
    /// Returns the default settings for this host name.
    pub fn new(hostname: impl Into<String>, role: Role) -> Self {
        Self {
            hostname: hostname.into(),
            role,
            tls_available: false,
            max_message_bytes: 50 * 1024 * 1024,
            max_recipients: 1000,
            max_line_bytes: 2048,
            max_auth_line_bytes: 12_288,
            max_errors: 20,
            max_refused_recipients: 100,
            max_idle_commands: 100,
            budget: None,
            piece_bytes: usize::MAX,
            spare_bytes: 1024,
        }
    }
}

/// Kind of mail that a listener accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Inbound mail: AUTH is not offered. The host decides which recipients are local.
    Inbound,
    /// Submission by our users: mail requires authentication (RFC 6409 section 4.3).
    Submission {
        /// Whether a password may be sent without TLS.
        auth_without_tls: bool,
    },
}
