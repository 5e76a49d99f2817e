//! What a listener decides about its sessions.

use super::budget::MessageBudget;

/// The settings of a server session. `Config::new` gives the defaults named at each field.
#[derive(Debug, Clone)]
pub struct Config {
    /// The name in the greeting and in the answer to EHLO.
    pub hostname: String,
    /// Mail from outside, or mail from our own users.
    pub role: Role,
    /// Whether STARTTLS is offered. Default: no.
    pub tls_available: bool,
    /// The longest message in bytes, after dot-unstuffing; it is announced by SIZE. Default: 50 MiB.
    pub max_message_bytes: usize,
    /// The most recipients that one message may have; further ones are told to come again
    /// (RFC 5321 section 4.5.3.1.10 wants at least 100). Default: 1000.
    pub max_recipients: usize,
    /// The longest command line in bytes with its CRLF. RFC 5321 section 4.5.3.1.4 says 512, to which the
    /// extensions add. Default: 2048.
    pub max_line_bytes: usize,
    /// The longest line of an AUTH exchange in bytes with its CRLF (RFC 4954 section 4). Default: 12288.
    pub max_auth_line_bytes: usize,
    /// How many commands may be bad (unknown, malformed, out of order, wrong password) before the session
    /// is ended with 421. A message that is taken starts the count anew. Default: 20.
    pub max_errors: u32,
    /// Maximum number of recipients refused with 5xx, after which the session ends with 421. Further ones would only
    /// reveal which addresses exist. Refusals of a client that logged in do not count. Default: 100.
    pub max_refused_recipients: u32,
    /// Maximum number of idle commands (NOOP, RSET, VRFY, HELP, EHLO, HELO), after which the session ends with 421. An
    /// accepted message resets the count. Default: 100.
    pub max_idle_commands: u32,
    /// What messages under way may take together over all sessions that share it; above it a message is refused with
    /// 452 4.3.1. Default: no limit.
    pub budget: Option<MessageBudget>,
    /// A message that has more bytes than this comes in pieces of about this length ([`super::Step::Keep`]), so that
    /// no session holds more of it. Default: no limit, a message comes as a whole.
    pub piece_bytes: usize,
    /// How many bytes are kept free behind a message, for the fields that the host puts in front of it without
    /// copying it into a longer buffer. Default: 1024.
    pub spare_bytes: usize,
}

impl Config {
    /// The default settings for a host of this name.
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

/// Whose mail a listener takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Mail from outside: nobody logs in, AUTH is not offered. Which recipients are ours, the host decides.
    Inbound,
    /// Mail from our users: without a log-in no mail is taken (RFC 6409 section 4.3).
    Submission {
        /// Whether a password may be sent over a connection without TLS.
        auth_without_tls: bool,
    },
}
