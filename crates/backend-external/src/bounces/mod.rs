//! Bounces that return as mail: the second source of delivery status.
//!
//! A 250 reply of the next server is not final. That server may give up later, and then sends a delivery status
//! notification to the reverse-path (RFC 3464). So every message has its own reverse-path, an address in one mailbox
//! of this installation ([`ReturnAddress`]). The mail that arrives there is one more feed ([`BounceFeed`]).
//!
//! | file | content |
//! |---|---|
//! | `notice` | parses a mail, and decides whether it is authentic |
//! | `new_mail` | reads new messages of the mailbox without changing flags |
//! | `doubt` | handles a message at which the server closes the connection |
//! | `place`, `feed` | one step: from a position in the mailbox to events and the next position |
//!
//! Anyone may send mail to that mailbox. A notification counts only if it came to an address with a valid proof. The
//! reader of the feed checks whether the recipient belongs to that message.

mod doubt;
mod feed;
mod new_mail;
mod notice;
mod place;

use std::time::Duration;

use mailapi_model::{EmailAddress, FolderName};

pub use feed::BounceFeed;
pub use mailapi_backend::{BounceKey, ReturnAddress, ReturnAddressError};

/// Settings of the bounce mailbox.
#[derive(Debug, Clone)]
pub struct BounceSettings {
    /// The mailbox that receives bounces.
    pub mailbox: EmailAddress,
    /// The character between the local part and the detail: Postfix's `recipient_delimiter`. Usually `+`.
    pub delimiter: char,
    /// The folder to read. Usually INBOX.
    pub folder: FolderName,
    /// The key that authenticates return addresses.
    pub key: BounceKey,
    /// Limits on reading.
    pub limits: BounceLimits,
}

/// Limits on reading the mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BounceLimits {
    /// Time between checks for new mail. Default 30 s.
    pub poll_interval: Duration,
    /// The maximum number of messages per step. Default 100.
    pub batch_messages: usize,
    /// The range of UIDs per step. Default 10,000: if most messages were removed, few remain in it.
    pub uid_range: u32,
    /// The bytes read of each message. The report precedes the returned message. Default 256 KiB.
    pub message_bytes: u32,
    /// How often a message is retried if the server closes the connection at it but returns others. Then it is
    /// skipped. Default 5.
    pub message_tries: usize,
    /// How long a skipped message is reported. Default 24 h.
    pub loss_memory: Duration,
    /// The number of characters stored of the other server's response. Default 1,000.
    pub response_characters: usize,
}

impl Default for BounceLimits {
    fn default() -> Self {
        Self {
            poll_interval: Duration::from_secs(30),
            batch_messages: 100,
            uid_range: 10_000,
            message_bytes: 256 << 10,
            message_tries: 5,
            loss_memory: Duration::from_secs(24 * 3600),
            response_characters: 1000,
        }
    }
}

impl BounceSettings {
    /// Returns the addresses that receive bounces.
    ///
    /// # Errors
    /// If the mailbox's own address is too long for them.
    pub fn return_addresses(&self) -> Result<ReturnAddress, ReturnAddressError> {
        ReturnAddress::new(self.mailbox.clone(), self.delimiter, &self.key)
    }
}
