//! The address of rspamd.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// `host:port`; an IPv6 address is in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RspamdAddress {
    /// A name or an address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl FromStr for RspamdAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not valid; write host:port, such as 127.0.0.1:11333");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => inner.parse::<Ipv6Addr>().map_err(|_| wrong())?.to_string(),
            None => host.to_owned().to_ascii_lowercase(),
        };
        let is_host =
            |host: &str| !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
        if host.parse::<Ipv6Addr>().is_err() && !is_host(&host) {
            return Err(wrong());
        }
        Ok(Self { host, port })
    }
}

impl fmt::Display for RspamdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_host_with_a_port_is_refused() {
        for text in
            ["", "localhost", ":11333", "a:0", "a:70000", "a b:1", "[::1]", "::1:1:x", "[a]:1", "u@h:1", "a/b:1"]
        {
            let refused = text.parse::<RspamdAddress>().unwrap_err();
            assert!(refused.contains("write host:port"), "{text}: {refused}");
        }
    }

    #[test]
    fn names_and_addresses_are_accepted() {
        for text in ["127.0.0.1:11333", "[::1]:11333", "filter.example.net:11334"] {
            assert_eq!(text.parse::<RspamdAddress>().unwrap().to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_shown_as_the_same(text in "[\\[\\]a-z0-9:.é ]{0,20}") {
            if let Ok(address) = text.parse::<RspamdAddress>() {
                prop_assert_eq!(address.to_string().parse::<RspamdAddress>(), Ok(address));
            }
        }
    }
}
