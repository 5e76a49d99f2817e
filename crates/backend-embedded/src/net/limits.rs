//! How many connections a listener takes.

use std::time::Duration;

/// The limits of one listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Most connections at a time. Default 1,000.
    pub max_connections: usize,
    /// Most connections of one client at a time; an IPv6 client is its /64 network. Default 100.
    pub max_connections_per_client: usize,
    /// How long a refused connection may take to read why. Default 2 s.
    pub refusal_timeout: Duration,
    /// The pause after the system could not give a connection, for want of file descriptors for instance.
    /// Default 100 ms.
    pub accept_pause: Duration,
    /// How long after the signal to stop a protocol may finish what it is in the middle of. Default 10 s.
    pub grace: Duration,
    /// How much longer the listener waits for its last replies to be written, before it cuts the connections.
    /// Default 2 s.
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
