//! Limits and time-outs of the SQLite engine.

use std::time::Duration;

use super::HomeRecord;

/// Limits and time-outs of the SQLite engine. The defaults suit some hundred mailboxes and keep an idle
/// process small.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqliteSettings {
    /// Maximum jobs per commit. Default 256: larger groups do not make a commit cheaper.
    pub group_jobs: usize,
    /// A commit accepts no further job after this time. Default 20 ms; bounds the wait after big jobs.
    pub group_time: Duration,
    /// Maximum jobs waiting for the writer before callers of `write` wait themselves. Default 4096.
    pub queue_jobs: usize,
    /// Maximum connections for short reads. They open on demand. Default 4.
    pub read_connections: usize,
    /// Maximum connections for long reads. Default 2.
    pub scan_connections: usize,
    /// Maximum connections for users' searches. Default 4.
    pub search_connections: usize,
    /// Time limit of a search. Default 30 s.
    pub search_timeout: Duration,
    /// How long to wait for another process's lock. Default 10 s.
    pub busy_timeout: Duration,
    /// How often an idle writer checks for changes by other processes, and how long commits without a waiting
    /// caller may stay unflushed. Default 250 ms.
    pub foreign_check: Duration,
    /// Prepared statements cached per connection. Default 128.
    pub statement_cache: usize,
    /// Page cache of the writer in KiB. Default 4096.
    pub writer_cache_kib: u32,
    /// Page cache of each reader in KiB. Default 1024; the operating system caches the file too.
    pub reader_cache_kib: u32,
    /// Page cache of each search connection in KiB. Default 4096, which holds most of the index of some ten
    /// thousand messages.
    pub search_cache_kib: u32,
    /// Bytes of the file mapped into memory. Default 0: truncation of a mapped file would kill the process.
    pub mmap_bytes: u64,
    /// Pages (4 KiB) in the write-ahead log that trigger a checkpoint. Default 2000.
    pub checkpoint_pages: u32,
    /// The write-ahead log is truncated to this many bytes after a checkpoint. Default 64 MiB.
    pub wal_limit_bytes: u64,
    /// Whether the path of the file may contain symbolic links. Default true. SQLite never follows a link in place of the
    /// log or the index of the log.
    pub follows_links: bool,
    /// Size of the reserve beside the file, with which deletions work on a full disk. Default 0: there is none.
    pub reserve_bytes: u64,
    /// The files that a running server has open. Others are not opened at the start. Default none.
    pub served: Option<HomeRecord>,
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
            follows_links: true,
            reserve_bytes: 0,
            served: None,
        }
    }
}
