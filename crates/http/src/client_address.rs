//! The client's address of a request, also behind proxies.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

use axum::http::Extensions;
use axum::http::HeaderMap;
use mailapi_model::ClientNetwork;
use mailapi_proxy::{Network, is_trusted};

use crate::closing::Closing;
use crate::limits::RateLimitNote;

/// Data attached to each request, in one extension: a second one would cost another allocation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arrival {
    /// Address of the peer; none without a connection (in tests).
    pub(crate) peer: Option<SocketAddr>,
    /// The request does not have exactly one host.
    pub(crate) is_ambiguous: bool,
    /// The connection has TLS of this server.
    pub(crate) is_encrypted: bool,
    /// The shutdown of the server.
    pub(crate) closing: Closing,
    /// Results of extractors. They outlive the request, which the handler consumes.
    pub(crate) noted: Arc<Noted>,
}

/// Results of extractors.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// The state of the request limit.
    pub(crate) limit: RateLimitNote,
    /// The authenticated caller: room for bodies and responses is shared by caller.
    pub(crate) caller: OnceLock<mailapi_service::Caller>,
}

/// The authenticated caller of a request.
pub(crate) fn caller(extensions: &Extensions) -> Option<&mailapi_service::Caller> {
    extensions.get::<Arrival>().and_then(|arrival| arrival.noted.caller.get())
}

/// The client that a connection counts for; `None` for a trusted proxy, which has many.
pub(crate) fn network_of(peer: SocketAddr, trusted: &[Network]) -> Option<ClientNetwork> {
    (!is_trusted(peer.ip(), trusted)).then(|| ClientNetwork::of(peer.ip()))
}

/// The client's address: the peer's, or the one that trusted proxies report.
pub(crate) fn client_address(extensions: &Extensions, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
    let peer = extensions.get::<Arrival>().and_then(|arrival| arrival.peer);
    let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip());
    forwarded(peer.to_canonical(), headers, trusted)
}

/// Each proxy appends the address of its peer. Read from the end, the first address that is not a trusted proxy's is
/// the client's. Addresses before it come from the client and are not trusted.
fn forwarded(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
    let mut address = peer;
    let lines = headers.get_all("x-forwarded-for").iter().rev();
    let mut hops = lines.flat_map(|line| line.to_str().unwrap_or("?").rsplit(','));
    while is_trusted(address, trusted) {
        match hops.next().and_then(|hop| parse_hop(hop.trim())) {
            Some(before) => address = before.to_canonical(),
            None => break,
        }
    }
    address
}

/// An address, with or without the port that some proxies add.
fn parse_hop(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse::<SocketAddr>().map(|address| address.ip());
    let bracketed = || text.trim_start_matches('[').trim_end_matches(']').parse();
    text.parse().or_else(|_| with_port()).or_else(|_| bracketed()).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn from(peer: &str, forwarded_for: &[&'static str]) -> String {
        let trusted: Vec<Network> = ["10.0.0.0/8", "::1"].map(|text| text.parse().unwrap()).into();
        let mut headers = HeaderMap::new();
        for line in forwarded_for {
            headers.append("x-forwarded-for", line.parse().unwrap());
        }
        forwarded(peer.parse().unwrap(), &headers, &trusted).to_string()
    }

    #[test]
    fn only_a_trusted_proxy_is_believed() {
        assert_eq!(from("192.0.2.1", &["198.51.100.7"]), "192.0.2.1");
        assert_eq!(from("10.0.0.1", &["203.0.113.9, 198.51.100.7"]), "198.51.100.7");
        assert_eq!(from("10.0.0.1", &["nonsense"]), "10.0.0.1");
        assert_eq!(from("10.0.0.1", &["198.51.100.7, nonsense, 10.0.0.2"]), "10.0.0.2");
    }

    #[test]
    fn the_last_address_that_is_no_proxy_is_the_client() {
        assert_eq!(from("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(from("::1", &["198.51.100.7:1234"]), "198.51.100.7");
        assert_eq!(from("10.0.0.1", &["1.1.1.1, 198.51.100.7", "10.0.0.3, 10.0.0.2"]), "198.51.100.7");
        assert_eq!(from("10.0.0.1", &["[2001:db8::1]:443"]), "2001:db8::1");
    }

    proptest! {
        #[test]
        fn any_header_is_read_without_panic(line in "[ -~]{0,60}") {
            let mut headers = HeaderMap::new();
            headers.append("x-forwarded-for", line.parse().unwrap());
            forwarded("10.0.0.1".parse().unwrap(), &headers, &["0.0.0.0/0".parse().unwrap()]);
        }
    }
}
