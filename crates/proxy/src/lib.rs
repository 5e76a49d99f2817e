//! The clients of listeners: listening sockets, which proxies are trusted, and the PROXY protocol.
//!
//! A proxy that forwards bytes reports its client's address in a header before everything else, also before a TLS
//! handshake ([specification](https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt)). A receiver must never guess
//! whether there is a header: anyone could forge one. So the configuration decides it for each listener, and only the
//! headers of trusted proxies are read.

mod announced;
mod header;
mod listening;
mod network;
mod setting;

pub use announced::{AnnounceError, AnnouncingProxies, announced_client};
pub use header::{HeaderError, HeaderReader, ReportedClient, TakenBytes, V1_START, V2_SIGNATURE};
pub use listening::listen;
pub use network::{Network, NetworkError, is_trusted};
pub use setting::{ProxiedListener, ProxiedListenerError, TrustedProxy, TrustedProxyError};
