//! Connection limits of a listener.

use std::time::Duration;

/// The limits of one listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Maximum number of connections. Default 1,000.
    pub max_connections: usize,
    /// Maximum number of connections per client; an IPv6 client is its /64 network. Default 100.
    pub max_connections_per_client: usize,
    /// Time limit for sending the reason to a refused client. Default 2 s.
    pub refusal_timeout: Duration,
    /// Pause after the system failed to accept a connection, for example without free file descriptors.
    /// Default 100 ms.
    pub accept_pause: Duration,
    /// Time after the shutdown signal in which a protocol may finish open work. Default 10 s.
    pub grace: Duration,
    /// Additional time for the last replies before connections are closed. Default 2 s.
    pub last_words: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            max_connections: 1_000,
            max_connections_per_client: 100,
            refusal_timeout: Duration::from_secs(2),
            accept_pause: Duration::from_millis(100),
            grace: Duration::from_secs(10),
            last_words: Duration::from_secs(2),
        }
    }
}
