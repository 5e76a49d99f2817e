//! Limits and time-outs of the PostgreSQL engine.

use std::time::Duration;

/// Limits and time-outs of the PostgreSQL engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresSettings {
    /// Maximum connections of this process, not counting the one that listens for changes. They open on
    /// demand. Default 16.
    pub connections: usize,
    /// Maximum connections used for long reads, so that the others stay free for short work. Default 4.
    pub scan_connections: usize,
    /// How long to wait for a free connection. Default 5 s.
    pub pool_timeout: Duration,
    /// Time-out for opening a connection, for each host in the URL. Default 5 s.
    pub connect_timeout: Duration,
    /// Server-side time-out for statements of changes and short reads, including waits for locks. Default 10
    /// s.
    pub statement_timeout: Duration,
    /// Server-side time-out for long reads. Default 60 s.
    pub scan_timeout: Duration,
    /// Extra time after a server-side time-out before the connection is considered dead. Default 5 s.
    pub answer_grace: Duration,
    /// Attempts per unit of work after conflicts (serialization failure, deadlock), or if the connection
    /// broke before anything could have been committed. Default 5.
    pub attempts: u32,
    /// Prepared statements cached per connection. Default 256.
    pub statement_cache: usize,
    /// Idle time before TCP keepalive probes start; after some unanswered probes the connection is closed.
    /// Default 30 s.
    pub keepalive: Duration,
    /// Pause before reconnecting the listener for changes by other nodes. Default 1 s.
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
