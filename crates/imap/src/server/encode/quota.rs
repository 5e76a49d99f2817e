//! QUOTA and QUOTAROOT responses (RFC 9208).

use crate::mailbox::MailboxName;
use crate::token::Writer;

/// The quota of an account. With a limit there is one quota root, which has the empty name. Without one there is none: a
/// root has at least one resource (RFC 9208 section 7), and mail programs disconnect at an empty list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    /// Bytes used and allowed; `None` if unlimited.
    pub storage: Option<Usage>,
    /// Messages stored and allowed; `None` if unlimited.
    pub messages: Option<Usage>,
}

/// A usage and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The amount used.
    pub used: u64,
    /// The amount allowed.
    pub limit: u64,
}

/// STORAGE counts in units of 1,024 octets (RFC 9208 section 5.1).
const STORAGE_UNIT: u64 = 1024;

impl Quota {
    /// Returns whether there is a limit.
    pub(in crate::server) const fn is_limited(&self) -> bool {
        self.storage.is_some() || self.messages.is_some()
    }
}

/// Writes `* QUOTAROOT name ""` and the quota, or only `* QUOTAROOT name` without a limit.
pub(in crate::server) fn write_root(writer: &mut Writer, mailbox: &MailboxName, quota: &Quota) {
    writer.raw("* QUOTAROOT ").mailbox(mailbox);
    if quota.is_limited() {
        writer.raw(" \"\"").crlf();
        write(writer, quota);
    } else {
        writer.crlf();
    }
}

/// Writes `* QUOTA "" (...)` of a quota with a limit.
pub(in crate::server) fn write(writer: &mut Writer, quota: &Quota) {
    // Round usage up and the limit down: a full mailbox must not look as if a unit were free.
    let storage = quota.storage.map(|Usage { used, limit }| {
        ("STORAGE", Usage { used: used.div_ceil(STORAGE_UNIT), limit: limit / STORAGE_UNIT })
    });
    let messages = quota.messages.map(|usage| ("MESSAGE", usage));
    writer.raw("* QUOTA \"\" ").list(storage.into_iter().chain(messages), |writer, (name, usage)| {
        writer.raw(name).raw(" ").number(usage.used).raw(" ").number(usage.limit);
    });
    writer.crlf();
}
