//! What an account decides about its mailbox.

use crate::named_values;

named_values! {
    /// Which messages of an author are copied to the folder for sent mail.
    SaveSent, SaveSentError, "must be off, api or all" {
        /// None: the mail program stores them itself.
        Off = "off",
        /// Those sent through the API.
        Api = "api",
        /// Those sent through the API, and by mail programs through submission.
        All = "all",
    }
}

/// What an account decides about its mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailboxOptions {
    /// The quota in bytes; `None` means unlimited.
    pub quota_bytes: Option<u64>,
    /// Which sent messages are copied.
    pub save_sent: SaveSent,
}
