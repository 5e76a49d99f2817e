//! Networks of addresses, as the configuration names them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// A network of addresses, `10.0.0.0/8`, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

/// A text that is neither a network nor an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an IP address or a network, such as 10.0.0.0/8")]
pub struct NetworkError;

impl Network {
    /// Returns the network.
    #[must_use]
    pub const fn net(self) -> IpNet {
        self.0
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let single = || text.parse::<IpAddr>().map(IpNet::from);
        text.parse().or_else(|_| single()).map(Self).map_err(|_| NetworkError)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns whether an address belongs to a trusted proxy.
#[must_use]
pub fn is_trusted(address: IpAddr, trusted: &[Network]) -> bool {
    let address = address.to_canonical();
    trusted.iter().any(|network| network.0.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_read_with_and_without_a_length() {
        for text in ["", "10.0.0.0/33", "10.0.0", "example.org"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
        assert!("192.0.2.1".parse::<Network>().is_ok() && "2001:db8::/32".parse::<Network>().is_ok());
    }

    #[test]
    fn an_address_of_ipv4_is_found_in_either_form() {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        for (address, expected) in [("10.1.2.3", true), ("::ffff:10.1.2.3", true), ("11.0.0.1", false), ("::1", false)]
        {
            assert_eq!(is_trusted(address.parse().unwrap(), &trusted), expected, "{address}");
        }
    }
}
