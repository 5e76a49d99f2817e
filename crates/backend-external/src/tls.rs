//! TLS modes for connections to the operator's mail server.

/// When a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// Never.
    #[default]
    None,
    /// After STARTTLS. A server that does not offer it is rejected.
    StartTls,
    /// From the first octet (RFC 8314 section 3).
    Implicit,
}
