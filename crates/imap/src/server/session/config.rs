//! What the operator decides about sessions.

use crate::token::Limits;

/// Settings of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// What a client may make the server hold.
    pub limits: Limits,
    /// The server's name in the greeting and in ID.
    pub product: String,
    /// True when the host can do TLS: STARTTLS is offered on connections without it.
    pub starttls: bool,
    /// True when passwords may be sent without TLS (loopback only).
    pub plaintext_login: bool,
    /// Failed log-ins after which the connection ends. Default 3.
    pub max_login_failures: u32,
    /// Unreadable commands in a row after which the connection ends. Default 20.
    pub max_bad_commands: u32,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            product: "mailapi".to_owned(),
            starttls: false,
            plaintext_login: false,
            max_login_failures: 3,
            max_bad_commands: 20,
        }
    }
}
