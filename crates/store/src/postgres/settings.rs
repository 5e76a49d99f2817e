//! Sizes and times of the PostgreSQL engine.

use std::time::Duration;

/// How the PostgreSQL engine uses connections and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresSettings {
    /// Most connections of this process, besides the one that listens for changes. Default 16; they open when they
    /// are first needed.
    pub connections: usize,
    /// Most of these that run long reads at once, so that the others stay free for short work. Default 4.
    pub scan_connections: usize,
    /// How long to wait for a connection while all are in use. Default 5 s.
    pub pool_timeout: Duration,
    /// How long opening a connection may take, for each host of the address. Default 5 s.
    pub connect_timeout: Duration,
    /// The server ends a statement of a change or of a short read after this. Default 10 s; waiting for locks counts.
    pub statement_timeout: Duration,
    /// The server ends a long read after this. Default 60 s.
    pub scan_timeout: Duration,
    /// How much longer than the server's own limit to wait for its answer before the connection is given up for dead.
    /// Default 5 s.
    pub answer_grace: Duration,
    /// How often one piece of work is tried when others were in its way (serialization failure, deadlock) or its
    /// connection broke before anything could have been kept. Default 5.
    pub attempts: u32,
    /// Prepared statements kept per connection. Default 256.
    pub statement_cache: usize,
    /// A silent connection is probed after this, and given up after some probes without an answer. Default 30 s.
    pub keepalive: Duration,
    /// How long to wait before trying again to listen for changes by others. Default 1 s.
    pub listen_retry: Duration,
}

impl Default for PostgresSettings {
    fn default() -> Self {
        Self {
            connections: 16,
            scan_connections: 4,
            pool_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            scan_timeout: Duration::from_secs(60),
            answer_grace: Duration::from_secs(5),
            attempts: 5,
            statement_cache: 256,
            keepalive: Duration::from_secs(30),
            listen_retry: Duration::from_secs(1),
        }
    }
}
