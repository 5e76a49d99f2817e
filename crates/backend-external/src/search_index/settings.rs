//! Settings of the search index.

use std::path::PathBuf;
use std::time::Duration;

/// When searches use the local index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexUse {
    /// If the IMAP server has no index. One with an index announces SEARCH=FUZZY (RFC 6203) after login.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never: the IMAP server handles each search.
    Off,
}

/// The location and limits of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchSettings {
    /// The directory, created if needed. All of it may be deleted while no process uses it.
    pub directory: PathBuf,
    /// When the index is used. Default [`IndexUse::Auto`].
    pub index: IndexUse,
    /// Disk space for all mailboxes together, in bytes. The least recently searched ones are removed first. A single
    /// step may exceed it temporarily. Default 4 GiB.
    pub max_bytes: u64,
    /// How long a mailbox stays indexed without a search. Default 30 days.
    pub forget_after: Duration,
    /// How long an evicted mailbox is not indexed again. Otherwise two mailboxes that do not fit together would
    /// replace each other endlessly. Default 1 hour.
    pub evicted_pause: Duration,
    /// How many added or removed messages are indexed while a search waits. With more, the IMAP server searches, and
    /// the index catches up in the background. Default 200.
    pub catch_up_messages: u64,
    /// Messages per background step. Default 64.
    pub batch_messages: usize,
    /// Bytes of text after which a step stores its results. Default 1 MiB.
    pub batch_bytes: usize,
    /// Texts longer than this, in bytes, are not in the full-text index; each search reads them. Default 1 MiB.
    pub max_indexed_bytes: usize,
    /// Length of the pause after each background step, as a multiple of the step. Default 2: a third of a core.
    pub rest: u32,
    /// The maximum number of waiting indexing requests. Further mailboxes wait for their next search. Default 1,000.
    pub max_waiting: usize,
    /// The maximum number of open index files. Default 16.
    pub max_open: usize,
    /// Concurrent searches of the index. Default 4.
    pub connections: usize,
    /// How long a search waits for its permits, of which each mailbox has one. Then the IMAP server searches. Default
    /// 2 seconds.
    pub wait_timeout: Duration,
    /// Time limit of a search. Default 30 seconds.
    pub search_timeout: Duration,
    /// How long to wait for a lock on a file. Default 5 seconds.
    pub busy_timeout: Duration,
    /// Page cache per open file, in bytes. Default 512 KiB; the operating system caches files too.
    pub page_cache_bytes: u64,
    /// Time between two clean-ups. Default 10 minutes.
    pub tidy_interval: Duration,
    /// How many mailboxes each clean-up checks on the IMAP server; missing ones are removed. Default 10.
    pub tidy_mailboxes: usize,
}

impl SearchSettings {
    /// Returns the defaults for a directory.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            index: IndexUse::Auto,
            max_bytes: 4 * 1024 * 1024 * 1024,
            forget_after: Duration::from_secs(30 * 24 * 60 * 60),
            evicted_pause: Duration::from_secs(60 * 60),
            catch_up_messages: 200,
            batch_messages: 64,
            batch_bytes: 1024 * 1024,
            max_indexed_bytes: 1024 * 1024,
            rest: 2,
            max_waiting: 1_000,
            max_open: 16,
            connections: 4,
            wait_timeout: Duration::from_secs(2),
            search_timeout: Duration::from_secs(30),
            busy_timeout: Duration::from_secs(5),
            page_cache_bytes: 512 * 1024,
            tidy_interval: Duration::from_secs(10 * 60),
            tidy_mailboxes: 10,
        }
    }
}
