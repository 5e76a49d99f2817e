//! Settings of a client connection.

use crate::secret::Credentials;

/// Settings of a connection. `ClientConfig::new` sets the defaults named at each field.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Our name in EHLO: a host name or an address literal.
    pub hello_name: String,
    /// When to use TLS. Default: when it is offered.
    pub tls: TlsPolicy,
    /// Credentials for AUTH PLAIN. Default: none.
    pub credentials: Option<Credentials>,
    /// Whether the credentials may be sent without TLS, which is acceptable on loopback only. Default: no.
    pub auth_without_tls: bool,
    /// Maximum number of unanswered commands when PIPELINING is offered. It limits the buffering on both
    /// sides, so that neither blocks the other (RFC 2920 section 3.1). Default: 256.
    pub max_commands_in_flight: usize,
}

impl ClientConfig {
    /// Returns the default settings with this EHLO name.
    pub fn new(hello_name: impl Into<String>) -> Self {
        Self {
            hello_name: hello_name.into(),
            tls: TlsPolicy::WhenOffered,
            credentials: None,
            auth_without_tls: false,
            max_commands_in_flight: 256,
        }
    }
}

/// When to use TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsPolicy {
    /// Do not use TLS.
    Never,
    /// Use STARTTLS if the server offers it, clear text otherwise (RFC 7435).
    WhenOffered,
    /// Use STARTTLS, and fail without it.
    Required,
    /// Use TLS from the first octet (RFC 8314 section 3).
    Implicit,
}
