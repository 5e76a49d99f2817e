//! What the operator decides about the index.

use std::path::PathBuf;
use std::time::Duration;

/// When searches are answered from an index of our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexUse {
    /// Where the IMAP server has no index: one with an index tells SEARCH=FUZZY (RFC 6203) after the log-in.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never: each search is the IMAP server's.
    Off,
}

/// Where the index lies and how much it may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchSettings {
    /// The directory, which is made when it is missing. Everything in it may be removed while nobody uses it.
    pub directory: PathBuf,
    /// When it is used. Default [`IndexUse::Auto`].
    pub index: IndexUse,
    /// Octets of disk for all mailboxes together; those that were not searched for longest go first. It may be exceeded
    /// by what one step adds. Default 4 GiB.
    pub max_bytes: u64,
    /// A mailbox that nobody searched for so long is dropped from the index. Default 30 days.
    pub forget_after: Duration,
    /// A mailbox that made room for others is not indexed anew for so long: two that have no room together would take
    /// turns without end. Default 1 hour.
    pub evicted_pause: Duration,
    /// Up to so many messages that came or went are caught up with while a search waits; of more, the IMAP server
    /// searches, and the index catches up in the background. Default 200.
    pub catch_up_messages: u64,
    /// Messages that one step in the background reads. Default 64.
    pub batch_messages: usize,
    /// A step writes down what it has when it has read so many octets of text. Default 1 MiB.
    pub batch_bytes: usize,
    /// A text longer than this, in octets, stays out of the index and is read by each search. Default 1 MiB.
    pub max_indexed_bytes: usize,
    /// In the background, each step is followed by a rest so many times as long. Default 2: a third of a core.
    pub rest: u32,
    /// Searches whose mailboxes wait to be indexed; what is asked for beyond that waits for its next search.
    /// Default 1,000.
    pub max_waiting: usize,
    /// Mailboxes whose files are kept open. Default 16.
    pub max_open: usize,
    /// Searches that read the index at the same time. Default 4.
    pub connections: usize,
    /// How long one waits for its turn, of which each mailbox has one at a time; then the IMAP server searches. Default
    /// 2 seconds.
    pub wait_timeout: Duration,
    /// How long one may read before it is stopped. Default 30 seconds.
    pub search_timeout: Duration,
    /// How long to wait for a lock on a file. Default 5 seconds.
    pub busy_timeout: Duration,
    /// Memory for pages of each open file, in octets. Default 512 KiB; the operating system caches files too.
    pub page_cache_bytes: u64,
    /// How often old mailboxes are looked for. Default 10 minutes.
    pub tidy_interval: Duration,
    /// Of so many mailboxes the IMAP server is asked each time whether it still knows them; those that are gone are
    /// dropped. Default 10.
    pub tidy_mailboxes: usize,
}

impl SearchSettings {
    /// The defaults for a directory.
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
