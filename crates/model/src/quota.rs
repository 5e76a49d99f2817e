//! How much a mailbox holds.

/// The use of one mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Octets of all its messages.
    pub used_bytes: u64,
    /// How many messages it holds in all folders.
    pub messages: u64,
    /// How many octets it may hold; none means no limit.
    pub limit_bytes: Option<u64>,
}
