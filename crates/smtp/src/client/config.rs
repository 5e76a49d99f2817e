//! How a client behaves towards one server.

use crate::secret::Credentials;

/// The settings of a connection. `ClientConfig::new` gives the defaults named at each field.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Our name in EHLO, a host name or an address literal.
    pub hello_name: String,
    /// Whether TLS is switched on by STARTTLS. Default: when it is offered.
    pub tls: TlsPolicy,
    /// What AUTH PLAIN presents. Default: nothing.
    pub credentials: Option<Credentials>,
    /// Whether the credentials may be sent without TLS, which only loopback justifies. Default: no.
    pub auth_without_tls: bool,
    /// How many commands may wait for their replies when PIPELINING is offered. It bounds what both sides
    /// have to buffer, so that neither blocks the other (RFC 2920 section 3.1). Default: 256.
    pub max_commands_in_flight: usize,
    /// About how many bytes of the message one write carries. Default: 256 KiB.
    pub write_bytes: usize,
    /// The longest reply line in bytes. RFC 5321 section 4.5.3.1.5 says 512; real servers say more.
    /// Default: 4096.
    pub max_reply_line_bytes: usize,
    /// The most lines of one reply. Default: 128.
    pub max_reply_lines: usize,
}

impl ClientConfig {
    /// The default settings under this name.
    pub fn new(hello_name: impl Into<String>) -> Self {
        Self {
            hello_name: hello_name.into(),
            tls: TlsPolicy::WhenOffered,
            credentials: None,
            auth_without_tls: false,
            max_commands_in_flight: 256,
            write_bytes: 256 * 1024,
            max_reply_line_bytes: 4096,
            max_reply_lines: 128,
        }
    }
}

/// Whether STARTTLS is used. On a connection that was TLS from its start it never is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsPolicy {
    /// Stay in the clear.
    Never,
    /// Use it when the server has it; go on in the clear when it does not (RFC 7435).
    WhenOffered,
    /// Fail without it.
    Required,
}
