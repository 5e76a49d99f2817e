//! The operator's settings for sessions.

use crate::token::Limits;

/// Settings of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// Limits on the data that a client may send.
    pub limits: Limits,
    /// The server's name in the greeting and in ID.
    pub product: String,
    /// Whether the host supports TLS: STARTTLS is offered on connections without it.
    pub starttls: bool,
    /// Whether passwords are accepted without TLS (loopback only).
    pub plaintext_login: bool,
    /// Failed logins after which the connection is closed. Default 3.
    pub max_login_failures: u32,
    /// Consecutive invalid commands after which the connection is closed. Default 20.
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
