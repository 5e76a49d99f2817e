//! What is asked of the domain name system.

use std::net::IpAddr;

use async_trait::async_trait;

/// Answers questions about names. Every name is fully qualified, with or without the last dot.
///
/// Each question gives an empty list when the name is there and has no such record, and
/// [`DnsError::NoSuchName`] when the name itself is not.
#[async_trait]
pub trait Dns: Send + Sync {
    /// The mail servers of a domain, as they stand in DNS: neither sorted nor resolved. The null MX of RFC 7505 is
    /// an exchange of `.`.
    async fn mx(&self, domain: &str) -> Result<Vec<MailExchange>, DnsError>;

    /// The texts of a name, each put together from its strings (RFC 7208 section 3.3).
    async fn txt(&self, name: &str) -> Result<Vec<String>, DnsError>;

    /// The addresses of a host, of both families.
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DnsError>;

    /// The names of an address, without the last dot.
    async fn names_of(&self, address: IpAddr) -> Result<Vec<String>, DnsError>;
}

/// One mail server of a domain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MailExchange {
    /// Lower ones come first.
    pub preference: u16,
    /// The host without the last dot; `.` alone for the null MX.
    pub exchange: String,
}

/// Why a question got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DnsError {
    /// The name does not exist.
    #[error("the name does not exist")]
    NoSuchName,
    /// Nobody answered in time: nothing is known about the name.
    #[error("the name servers did not answer in time")]
    Timeout,
    /// The question failed: nothing is known about the name.
    #[error("the name servers failed: {0}")]
    Failed(String),
}
