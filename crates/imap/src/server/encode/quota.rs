//! QUOTA and QUOTAROOT responses (RFC 9208).

use crate::mailbox::MailboxName;
use crate::token::Writer;

/// The quota of an account. There is one quota root per account, with the empty name.
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

/// Writes `* QUOTAROOT name ""`.
pub(in crate::server) fn write_root(writer: &mut Writer, mailbox: &MailboxName) {
    writer.raw("* QUOTAROOT ").mailbox(mailbox).raw(" \"\"").crlf();
}

/// Writes `* QUOTA "" (...)`.
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
