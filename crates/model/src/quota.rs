//! The use and limit of a mailbox.

/// The use and limit of a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Total size of all messages in bytes.
    pub used_bytes: u64,
    /// Number of messages in all folders.
    pub messages: u64,
    /// The limit in bytes; `None` means unlimited.
    pub limit_bytes: Option<u64>,
}
