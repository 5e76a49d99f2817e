//! Sizes and times of the maildrop and its queue.

use std::time::Duration;

use mailapi_backend::BounceKey;

/// How the maildrop keeps messages, and for how long the queue tries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageStoreSettings {
    /// The longest message that is taken. Default 25 MiB.
    pub max_message_bytes: usize,
    /// Mail to an address without a mailbox is delivered to the part of its local part before this sign (RFC 5233
    /// section 1). `None` refuses such mail. Default `+`.
    pub recipient_delimiter: Option<char>,
    /// How much of a message one database row holds, and so how much of it reading keeps in memory. Default 128 KiB.
    /// Messages that are there already keep the length with which they were written.
    pub chunk_bytes: usize,
    /// More octets than these are parsed, decoded or loaded on a thread that may block. Default 256 KiB.
    pub inline_bytes: usize,
    /// A folder with more entries than these is selected on a thread that may block. Default 2,000.
    pub inline_entries: u64,
    /// How long the queue tries to reach a recipient. Default 5 days (RFC 5321 section 4.5.4.1).
    pub queue_lifetime: Duration,
    /// How long it is remembered which messages were taken over from the API. Default 30 days.
    pub accepted_memory: Duration,
    /// How many old rows of that memory one step of the sweeper forgets. Default 1,000.
    pub accepted_batch: usize,
    /// Most folders of one mailbox. Default 1,000.
    pub max_folders: u64,
    /// Most keywords of one message. Default 50.
    pub max_keywords: usize,
    /// Most delivery events of one read. Default 1,000.
    pub feed_batch: usize,
    /// Most messages that one step of the indexer reads. Default 64.
    pub index_batch: usize,
    /// A step of the indexer ends when it has read this much text. Default 64 KiB; bounds how long others wait
    /// for the database's writer.
    pub index_batch_bytes: usize,
    /// A text above this length stays out of the index and is read by each search. Default 1 MiB.
    pub max_indexed_bytes: usize,
    /// Most searches of one mailbox that run at once. Default 2: half of the database's connections for searches.
    pub mailbox_searches: usize,
    /// Most unreferenced messages that one step of the sweeper removes. Default 64.
    pub sweep_batch: usize,
    /// While others write, sweeper and indexer rest this many times as long as their last step took. Default 4: they
    /// get about a fifth of the writer's time, and all of it when nobody else wants it.
    pub chores_rest: u32,
    /// The key that proves that a bounce came to the return address of its message. Without a key, messages have no
    /// return address and no bounce is accepted. Default: none.
    pub return_key: Option<BounceKey>,
    /// Whether accounts, and what became of messages, are kept in another database than the mail. Then nothing is told
    /// there that a loss of power could still take away here. Default true, which is safe in one file, too, but slower.
    pub accounts_elsewhere: bool,
}

impl Default for MessageStoreSettings {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            max_message_bytes: 25 * 1024 * 1024,
            recipient_delimiter: Some('+'),
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
            chores_rest: 4,
            return_key: None,
            accounts_elsewhere: true,
        }
    }
}
