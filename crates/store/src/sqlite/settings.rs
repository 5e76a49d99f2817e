//! Sizes and times of the SQLite engine.

use std::time::Duration;

/// How the SQLite engine uses memory, threads and time. The defaults suit a server with some hundred mailboxes
/// and keep an idle process small.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqliteSettings {
    /// Most jobs of one commit. Default 256: beyond that a commit gets no cheaper.
    pub group_jobs: usize,
    /// A commit takes in no further job when it is this old. Default 20 ms; bounds the wait behind big jobs.
    pub group_time: Duration,
    /// Most jobs that wait for the writer before callers of `write` wait themselves. Default 4096.
    pub queue_jobs: usize,
    /// Most connections for short reads. Default 4; they open when they are first needed.
    pub read_connections: usize,
    /// Most connections for long reads. Default 2.
    pub scan_connections: usize,
    /// Most connections for users' searches. Default 4.
    pub search_connections: usize,
    /// How long a search may take before it is stopped. Default 30 s.
    pub search_timeout: Duration,
    /// How long to wait for a lock that another process holds. Default 10 s.
    pub busy_timeout: Duration,
    /// How often an idle writer looks for changes by other processes, and how old what nobody waits for may become before
    /// it is flushed. Default 250 ms.
    pub foreign_check: Duration,
    /// Prepared statements kept per connection. Default 128.
    pub statement_cache: usize,
    /// Page cache of the writer in KiB. Default 4096.
    pub writer_cache_kib: u32,
    /// Page cache of each reader in KiB. Default 1024; the operating system caches the file too.
    pub reader_cache_kib: u32,
    /// Page cache of each connection for searches in KiB. Default 4096: the index of some ten thousand messages is
    /// mostly found there.
    pub search_cache_kib: u32,
    /// How much of the file is mapped into memory. Default 0: a truncated mapped file would kill the process.
    pub mmap_bytes: u64,
    /// Pages (4 KiB) in the write-ahead log after which they are folded into the file. Default 2000.
    pub checkpoint_pages: u32,
    /// The write-ahead log is cut down to this many bytes after it was folded in. Default 64 MiB.
    pub wal_limit_bytes: u64,
}

impl Default for SqliteSettings {
    fn default() -> Self {
        Self {
            group_jobs: 256,
            group_time: Duration::from_millis(20),
            queue_jobs: 4096,
            read_connections: 4,
            scan_connections: 2,
            search_connections: 4,
            search_timeout: Duration::from_secs(30),
            busy_timeout: Duration::from_secs(10),
            foreign_check: Duration::from_millis(250),
            statement_cache: 128,
            writer_cache_kib: 4096,
            reader_cache_kib: 1024,
            search_cache_kib: 4096,
            mmap_bytes: 0,
            checkpoint_pages: 2000,
            wal_limit_bytes: 64 * 1024 * 1024,
        }
    }
}
