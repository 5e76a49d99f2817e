//! Settings of the HTTP API.

use std::time::Duration;

use mailapi_proxy::Network;
use mailapi_tls::ServerTls;
use tracing::level_filters::LevelFilter;

use crate::limits::RequestLimits;

/// Settings of the HTTP API.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Address of the service for clients, without a path, shown in the document. `None` means the address from which
    /// the document was loaded.
    pub public_url: Option<String>,
    /// Proxies whose `X-Forwarded-For` is trusted; empty means none.
    pub trusted_proxies: Vec<Network>,
    /// Maximum size of a request that sends a message, in bytes.
    pub max_request_bytes: usize,
    /// Maximum size of all other requests, in bytes.
    pub max_small_request_bytes: usize,
    /// Maximum total bytes of large messages that are being received or sent. Requests beyond it are rejected
    /// temporarily. One caller gets at most half of it.
    pub max_request_bytes_in_flight: usize,
    /// Request limits of a token, or of an address without a token.
    pub limits: RequestLimits,
    /// Time-out for a complete request head, including idle time; then the connection is closed. Above the 60 seconds
    /// after which load balancers commonly close idle connections: they would otherwise send requests into closed ones.
    pub header_timeout: Duration,
    /// Maximum pause within a body.
    pub body_pause: Duration,
    /// Maximum time for a complete body.
    pub body_timeout: Duration,
    /// Maximum time for discarding an unread body, so that the client can read the response.
    pub discard_timeout: Duration,
    /// Maximum number of discarded bytes.
    pub discard_bytes: usize,
    /// Bodies larger than this are parsed on a blocking thread.
    pub long_work_bytes: usize,
    /// In larger bodies, strings longer than this are written to temporary files ([`mailapi_service::Buffer`]). At least
    /// [`Self::LEAST_LONG_STRING_BYTES`].
    pub long_string_bytes: usize,
    /// Memory for cached pages of folders; zero disables the cache.
    pub kept_page_bytes: u64,
    /// Time between two comments in an event stream without events. Proxies close connections that are idle for a minute
    /// or less, and a comment shows whether the client is still there.
    pub comment_interval: Duration,
    /// Maximum number of connections; more wait to be accepted. Each takes up to 30 KiB.
    pub max_connections: usize,
    /// Log level of the access log; `off` disables it.
    pub access_log: LevelFilter,
    /// Time for requests in flight to finish at shutdown.
    pub shutdown_grace: Duration,
    /// The certificate of the listeners, with the answers for the authority that checks this server's names; `None`
    /// without TLS.
    pub tls: Option<ServerTls>,
}

impl HttpSettings {
    /// Longer than any member name, even if every character is escaped. A name in a file would not be recognized, and
    /// its member would be ignored.
    pub(crate) const LEAST_LONG_STRING_BYTES: usize = 512;
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            public_url: None,
            trusted_proxies: Vec::new(),
            max_request_bytes: 35 * 1024 * 1024,
            max_small_request_bytes: 64 * 1024,
            max_request_bytes_in_flight: 256 * 1024 * 1024,
            limits: RequestLimits::default(),
            header_timeout: Duration::from_secs(75),
            body_pause: Duration::from_secs(30),
            body_timeout: Duration::from_secs(600),
            discard_timeout: Duration::from_secs(10),
            discard_bytes: 256 * 1024 * 1024,
            long_work_bytes: 256 * 1024,
            long_string_bytes: 16 * 1024,
            kept_page_bytes: 8 * 1024 * 1024,
            comment_interval: Duration::from_secs(15),
            max_connections: 8_000,
            access_log: LevelFilter::INFO,
            shutdown_grace: Duration::from_secs(30),
            tls: None,
        }
    }
}
