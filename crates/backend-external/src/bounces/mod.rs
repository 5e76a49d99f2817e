//! Bounces that come back as mail: the second source of delivery truth.
//!
//! The next server's yes is not the end of a message: it may give the message up later, and tells that by a delivery
//! status notification to the reverse-path (RFC 3464). So every message gets a reverse-path of its own, an address in
//! one mailbox of this installation ([`ReturnAddress`]), and what arrives there is one more feed ([`BounceFeed`]).
//!
//! | file | what stands there |
//! |---|---|
//! | `notice` | what a mail says, and whether it may be believed |
//! | `new_mail` | reading what is new in the mailbox, without a trace |
//! | `doubt` | a message at which the server ends the connection |
//! | `place`, `feed` | one step: from a place in the mailbox to events and the next place |
//!
//! Anybody may write to that mailbox. A notification counts when it came to an address whose proof is right; whether
//! the recipient is one of that message's is for the reader of the feed to look up.

mod doubt;
mod feed;
mod new_mail;
mod notice;
mod place;

use std::time::Duration;

use mailapi_model::{EmailAddress, FolderName};

pub use feed::BounceFeed;
pub use mailapi_backend::{BounceKey, ReturnAddress, ReturnAddressError};

/// Where bounces go.
#[derive(Debug, Clone)]
pub struct BounceSettings {
    /// The mailbox that they are delivered to.
    pub mailbox: EmailAddress,
    /// What stands between its name and the detail; `recipient_delimiter` of Postfix. Usually `+`.
    pub delimiter: char,
    /// The folder of the mailbox that is read. Usually INBOX.
    pub folder: FolderName,
    /// What proves that we wrote an address.
    pub key: BounceKey,
    /// How much is read, and how often.
    pub limits: BounceLimits,
}

/// How much of the mailbox is read, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BounceLimits {
    /// How often it is looked for new mail. Default 30 s.
    pub poll_interval: Duration,
    /// The most messages that one step reads. Default 100.
    pub batch_messages: usize,
    /// In how many UIDs one step looks for messages. Default 10,000: where most were removed, few are left of them.
    pub uid_range: u32,
    /// How much of each message is read. What matters stands in front of the message that is returned. Default
    /// 256 KiB.
    pub message_octets: u32,
    /// How often a message is asked for at which the server ends the connection, while it gives others out. Then it is
    /// stepped over. Default 5.
    pub message_tries: usize,
    /// How long it is told that a message was stepped over. Default 24 h.
    pub loss_memory: Duration,
    /// How many characters are kept of what the other server said. Default 1,000.
    pub response_characters: usize,
}

impl Default for BounceLimits {
    fn default() -> Self {
        Self {
            poll_interval: Duration::from_secs(30),
            batch_messages: 100,
            uid_range: 10_000,
            message_octets: 256 << 10,
            message_tries: 5,
            loss_memory: Duration::from_secs(24 * 3600),
            response_characters: 1000,
        }
    }
}

impl BounceSettings {
    /// The addresses that bounces go to.
    ///
    /// # Errors
    /// When the mailbox's own address leaves no room for them.
    pub fn return_addresses(&self) -> Result<ReturnAddress, ReturnAddressError> {
        ReturnAddress::new(self.mailbox.clone(), self.delimiter, &self.key)
    }
}
