//! TLS towards the operator's mail server.

/// When a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// Never.
    #[default]
    None,
    /// After STARTTLS; a server that does not offer it is not used.
    StartTls,
    /// From the first octet on (RFC 8314 section 3).
    Implicit,
}
