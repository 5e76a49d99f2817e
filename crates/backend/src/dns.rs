//! DNS look-ups.

use std::net::IpAddr;

use async_trait::async_trait;

/// Looks up DNS records. Names are fully qualified, with or without the final dot.
///
/// A name without records of the type gives an empty list; a name that does not exist gives
/// [`DnsError::NoSuchName`].
#[async_trait]
pub trait Dns: Send + Sync {
    /// Returns the MX records of a domain, neither sorted nor resolved. The null MX of RFC 7505 has the
    /// exchange `.`.
    async fn mx(&self, domain: &str) -> Result<Vec<MailExchange>, DnsError>;

    /// Returns the TXT records of a name, each joined from its strings (RFC 7208 section 3.3).
    async fn txt(&self, name: &str) -> Result<Vec<String>, DnsError>;

    /// Returns the IPv4 and IPv6 addresses of a host.
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DnsError>;

    /// Returns the names of an address, without the final dot.
    async fn names_of(&self, address: IpAddr) -> Result<Vec<String>, DnsError>;
}

/// One MX record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MailExchange {
    /// Lower values are tried first.
    pub preference: u16,
    /// The host without the final dot; `.` alone for the null MX.
    pub exchange: String,
}

/// Why a look-up failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DnsError {
    /// The name does not exist.
    #[error("the name does not exist")]
    NoSuchName,
    /// No server answered in time, so nothing is known about the name.
    #[error("the name servers did not answer in time")]
    Timeout,
    /// The look-up failed, so nothing is known about the name.
    #[error("the name servers failed: {0}")]
    Failed(String),
}
