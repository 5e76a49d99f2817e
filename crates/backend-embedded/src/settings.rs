//! Limits and times of the message store and its queue.

use std::time::Duration;

use mailapi_backend::BounceKey;
use mailapi_model::EmailAddress;

/// Settings of the message store and its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageStoreSettings {
    /// Maximum message size in bytes. Default 25 MiB.
    pub max_message_bytes: usize,
    /// Mail to an unknown address is delivered to the mailbox named by its local part before this character
    /// (RFC 5233 section 1). `None` rejects such mail. Default `+`.
    pub recipient_delimiter: Option<char>,
    /// Maximum number of addresses that one message reaches in a day through aliases and rules here, also if its copies
    /// come back from other servers. Default 10,000: an alias has 1,000 members at most, and a message from an author here
    /// reaches 5,000.
    pub max_reached: u64,
    /// Recipients of mail for the postmaster of a domain that has none: the first address that is a local mailbox or
    /// alias, otherwise the oldest mailbox. Default: none.
    pub postmasters: Vec<EmailAddress>,
    /// Size in bytes of a database row of a message, and so the memory that reading needs. Default 128 KiB.
    /// Stored messages keep the size with which they were written.
    pub chunk_bytes: usize,
    /// Contents above this size in bytes are parsed, decoded or loaded on a blocking thread. Default 256 KiB.
    pub inline_bytes: usize,
    /// Folders with more entries are selected on a blocking thread. Default 2,000.
    pub inline_entries: u64,
    /// How long the queue retries a recipient. Default 5 days (RFC 5321 section 4.5.4.1).
    pub queue_lifetime: Duration,
    /// How long the record of a message accepted from the API is kept. Default 30 days.
    pub accepted_memory: Duration,
    /// Maximum number of such records that one collection step deletes. Default 1,000.
    pub accepted_batch: usize,
    /// Maximum number of folders of a mailbox. Default 1,000.
    pub max_folders: u64,
    /// Maximum number of keywords of a message. Default 50.
    pub max_keywords: usize,
    /// Maximum number of delivery events of one read. Default 1,000.
    pub feed_batch: usize,
    /// Maximum number of messages that one indexing step reads. Default 64.
    pub index_batch: usize,
    /// An indexing step ends when it has read this many bytes of text. It limits how long others wait for the
    /// database's writer. Default 64 KiB.
    pub index_batch_bytes: usize,
    /// Texts above this size in bytes are not indexed; each search reads them. Default 1 MiB.
    pub max_indexed_bytes: usize,
    /// Maximum number of simultaneous searches of a mailbox. Default 2: half of the database's search
    /// connections.
    pub mailbox_searches: usize,
    /// Maximum number of unreferenced messages that one collection step deletes. Default 64.
    pub sweep_batch: usize,
    /// Key that authenticates bounces to the return address of a message. Without it, messages have no return
    /// address and no bounce is accepted. Default: none.
    pub return_key: Option<BounceKey>,
    /// Name of this node, if several nodes share the accounts. Each has a queue and reports of its own. Default: none.
    pub node: Option<String>,
}

impl Default for MessageStoreSettings {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            max_message_bytes: 25 * 1024 * 1024,
            recipient_delimiter: Some('+'),
            max_reached: 10_000,
            postmasters: Vec::new(),
            chunk_bytes: 128 * 1024,
            inline_bytes: 256 * 1024,
            inline_entries: 2_000,
            queue_lifetime: 5 * DAY,
            accepted_memory: 30 * DAY,
            accepted_batch: 1_000,
            max_folders: 1_000,
            max_keywords: 50,
            feed_batch: 1_000,
            index_batch: 64,
            index_batch_bytes: 64 * 1024,
            max_indexed_bytes: 1024 * 1024,
            mailbox_searches: 2,
            sweep_batch: 64,
            return_key: None,
            node: None,
        }
    }
}
