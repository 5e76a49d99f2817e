//! DNS look-ups.

use std::net::IpAddr;

use async_trait::async_trait;
use mailapi_model::TlsaRecord;

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

    /// Returns the SRV records of a name, neither sorted nor resolved (RFC 2782).
    async fn srv(&self, name: &str) -> Result<Vec<ServiceLocation>, DnsError>;

    /// Returns the host of which a name is an alias (CNAME, RFC 1034 section 3.6.2), without the final dot; `None` if the
    /// name is not an alias.
    ///
    /// # Errors
    /// As the other look-ups.
    async fn alias_target(&self, _name: &str) -> Result<Option<String>, DnsError> {
        Ok(None)
    }

    /// Returns the MX records of a domain like [`Dns::mx`], and whether DNSSEC proves them. Without DNSSEC they are
    /// unproven.
    ///
    /// # Errors
    /// As [`Dns::mx`]; [`DnsError::Failed`] also if the signatures are not valid.
    async fn mx_with_proof(&self, domain: &str) -> Result<Proven<Vec<MailExchange>>, DnsError> {
        Ok(Proven { value: self.mx(domain).await?, is_proven: false })
    }

    /// Returns the TLSA records of the mail server at a host and port (RFC 7672 section 2.2); `None` without records
    /// that DNSSEC proves, or if it does not prove the addresses of the host.
    ///
    /// # Errors
    /// If the look-up fails, or the signatures are not valid. Whether there are records is then unknown.
    async fn tlsa(&self, _host: &str, _port: u16) -> Result<Option<TlsaRecords>, DnsError> {
        Ok(None)
    }
}

/// The result of a look-up, and whether DNSSEC proves it (RFC 4033 section 5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proven<T> {
    /// The result.
    pub value: T,
    /// Whether a chain of signatures leads from the root to it.
    pub is_proven: bool,
}

/// The TLSA records of a mail server. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsaRecords {
    /// The name at which they were found: the host, or the name of which the host is an alias.
    pub base: String,
    /// The records.
    pub records: Vec<TlsaRecord>,
}

/// One MX record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MailExchange {
    /// Lower values are tried first.
    pub preference: u16,
    /// The host without the final dot; `.` alone for the null MX.
    pub exchange: String,
}

/// One SRV record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceLocation {
    /// Lower values are tried first.
    pub priority: u16,
    /// The share among records of one priority.
    pub weight: u16,
    /// The port of the service.
    pub port: u16,
    /// The host without the final dot; `.` alone if the service is not offered.
    pub target: String,
}

/// Returns the name that holds the PTR records of an address (RFC 1035 section 3.5, RFC 3596 section 2.5).
#[must_use]
pub fn reverse_name(address: IpAddr) -> String {
    let zone = if address.is_ipv4() { "in-addr.arpa" } else { "ip6.arpa" };
    format!("{}.{zone}", reversed(address))
}

/// Returns the octets of an IPv4 address or the nibbles of an IPv6 address as labels, the last one first.
#[must_use]
pub fn reversed(address: IpAddr) -> String {
    let parts: Vec<String> = match address {
        IpAddr::V4(address) => address.octets().iter().rev().map(ToString::to_string).collect(),
        IpAddr::V6(address) => {
            let nibbles = address.octets().into_iter().rev().flat_map(|octet| [octet & 15, octet >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}")).collect()
        }
    };
    parts.join(".")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_reversed_in_the_form_of_their_family() {
        assert_eq!(reverse_name("192.0.2.17".parse().unwrap()), "17.2.0.192.in-addr.arpa");
        let v6 = reverse_name("2001:db8::1".parse().unwrap());
        assert_eq!(v6, format!("1.{}8.b.d.0.1.0.0.2.ip6.arpa", "0.".repeat(23)));
        // The example of RFC 5782 section 2.4.
        assert_eq!(
            reversed("2001:db8:1:2:3:4:567:89ab".parse().unwrap()),
            "b.a.9.8.7.6.5.0.4.0.0.0.3.0.0.0.2.0.0.0.1.0.0.0.8.b.d.0.1.0.0.2"
        );
    }
}
