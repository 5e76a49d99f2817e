//! The origin of a login.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// The protocols for logins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LoginProtocol {
    /// The HTTP API.
    Http,
    /// SMTP submission.
    Submission,
    /// IMAP.
    Imap,
}

impl LoginProtocol {
    /// Returns the name used in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Submission => "submission",
            Self::Imap => "imap",
        }
    }
}

/// The addresses that count as one client: a single IPv4 address, or the /64 network of an IPv6 address, the
/// usual assignment to one customer (RFC 6177 section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientNetwork(IpAddr);

impl ClientNetwork {
    /// Returns the usual network of one subscriber: an IPv4 address, or an IPv6 /48 (RFC 6177 section 2).
    ///
    /// Such a subscriber can use any number of /64 networks. Counting those separately suits only short-lived
    /// limits.
    #[must_use]
    pub fn subscriber(self) -> String {
        const SITE: u128 = !0 << 80;
        match self.0 {
            IpAddr::V6(v6) => format!("{}/48", Ipv6Addr::from_bits(v6.to_bits() & SITE)),
            IpAddr::V4(v4) => v4.to_string(),
        }
    }

    /// Returns the client that `address` belongs to.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        const NETWORK: u128 = !0 << 64;
        Self(match address.to_canonical() {
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & NETWORK).into(),
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

impl fmt::Display for ClientNetwork {
    /// `192.0.2.1` or `2001:db8::/64`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(v4) => write!(f, "{v4}"),
            IpAddr::V6(v6) => write!(f, "{v6}/64"),
        }
    }
}

/// The text is not the name of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an IP address, or an IPv6 network such as 2001:db8::/64")]
pub struct InvalidClient;

impl FromStr for ClientNetwork {
    type Err = InvalidClient;

    /// Reads an address, or what [`fmt::Display`] shows.
    fn from_str(text: &str) -> Result<Self, InvalidClient> {
        let of = |address: IpAddr| Self::of(address);
        match text.strip_suffix("/64") {
            Some(network) => network.parse::<Ipv6Addr>().map(IpAddr::V6).map(of),
            None => text.parse().map(of),
        }
        .map_err(|_| InvalidClient)
    }
}

/// The origin of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Visitor {
    /// The protocol of the login.
    pub protocol: LoginProtocol,
    /// The client's address.
    pub address: IpAddr,
}

impl Visitor {
    /// Returns the client that this address belongs to.
    #[must_use]
    pub fn network(&self) -> ClientNetwork {
        ClientNetwork::of(self.address)
    }
}

impl fmt::Display for LoginProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_customer_is_one_client() {
        let client = |text: &str| ClientNetwork::of(text.parse().unwrap());
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:1"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
    }

    proptest! {
        #[test]
        fn a_client_is_read_as_it_is_shown(address: IpAddr) {
            let client = ClientNetwork::of(address);
            prop_assert_eq!(client.to_string().parse(), Ok(client));
        }

        #[test]
        fn other_texts_are_no_clients(text in "[0-9a-f:./%]{0,40}") {
            let read = text.parse::<ClientNetwork>();
            let address = text.strip_suffix("/64").unwrap_or(&text);
            prop_assert_eq!(read.is_ok(), address.parse::<IpAddr>().is_ok_and(|a| a.is_ipv6() || address == text));
        }
    }
}
