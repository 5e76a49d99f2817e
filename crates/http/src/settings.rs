//! What an operator decides about the HTTP side.

use std::time::Duration;

use tracing::level_filters::LevelFilter;

use crate::client_address::Network;
use crate::limits::RequestLimits;

/// How the HTTP side behaves.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Where clients reach the service, without a path; the document names it. None means wherever it was read from.
    pub public_url: Option<String>,
    /// Proxies whose `X-Forwarded-For` is believed. Empty: nobody's is.
    pub trusted_proxies: Vec<Network>,
    /// The most octets of a request that sends a message.
    pub max_request_bytes: usize,
    /// The most octets of every other request.
    pub max_small_request_bytes: usize,
    /// Maximum total octets of large messages that are being received or sent at once. A request without room is
    /// refused temporarily. One caller takes at most half of it.
    pub max_request_bytes_in_flight: usize,
    /// How many requests a token, or an address without a token, may make.
    pub limits: RequestLimits,
    /// A connection is closed when a request's head is not complete after this long, idle time included.
    pub header_timeout: Duration,
    /// A request fails when its body pauses for longer than this.
    pub body_pause: Duration,
    /// A request fails when its body is not complete after this long.
    pub body_timeout: Duration,
    /// A body that no operation reads is received and thrown away for at most this long, so that its sender gets to
    /// read the answer.
    pub discard_timeout: Duration,
    /// And at most so many octets of it.
    pub discard_bytes: usize,
    /// Bodies larger than this are parsed on a thread for long work.
    pub long_work_bytes: usize,
    /// The strings of larger bodies lie in memory up to this length, in octets; longer ones lie with the service's
    /// messages on their way ([`mailapi_service::Buffer`]). At least [`Self::LEAST_LONG_STRING_BYTES`].
    pub long_string_bytes: usize,
    /// Memory for pages of folders as they were written; zero keeps none.
    pub kept_page_bytes: u64,
    /// The most connections at once; more wait to be accepted.
    pub max_connections: usize,
    /// The log level of the line for each request; `off` writes none.
    pub access_log: LevelFilter,
    /// At a shutdown, requests in flight have this long to finish.
    pub shutdown_grace: Duration,
}

impl HttpSettings {
    /// No name of a member is as long, even when every character of it is written as an escape: one that lies elsewhere
    /// would not be recognised, and what it names would be ignored.
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
            header_timeout: Duration::from_secs(60),
            body_pause: Duration::from_secs(30),
            body_timeout: Duration::from_secs(600),
            discard_timeout: Duration::from_secs(10),
            discard_bytes: 256 * 1024 * 1024,
            long_work_bytes: 256 * 1024,
            long_string_bytes: 16 * 1024,
            kept_page_bytes: 8 * 1024 * 1024,
            max_connections: 10_000,
            access_log: LevelFilter::INFO,
            shutdown_grace: Duration::from_secs(30),
        }
    }
}
