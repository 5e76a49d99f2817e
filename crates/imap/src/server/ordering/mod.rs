//! SORT and THREAD (RFC 5256): the order of messages, from facts that the host reads. No IO.

mod sort;
mod subject;
mod thread;

use jiff::Timestamp;

pub(in crate::server) use sort::sort;
pub(in crate::server) use thread::{Thread, thread};

/// The facts of a message that order it. Texts are decoded; without a header they are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrderFacts {
    /// Its UID.
    pub uid: u32,
    /// The time of its receipt (INTERNALDATE).
    pub received: Timestamp,
    /// The Date header, or the time of its receipt without a readable one.
    pub sent: Timestamp,
    /// Its size in octets.
    pub size: u64,
    /// The first author.
    pub from: Person,
    /// The first recipient.
    pub to: Person,
    /// The local part of the first address in Cc.
    pub cc: String,
    /// The Subject header.
    pub subject: String,
    /// The Message-ID, without angle brackets.
    pub message_id: Option<String>,
    /// The ids in References, or else the first one in In-Reply-To; the direct parent comes last.
    pub references: Vec<String>,
}

/// An address that messages are sorted by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Person {
    /// The local part of its address.
    pub local_part: String,
    /// The display name, or else the address (RFC 5957 section 3).
    pub display: String,
}

/// Compares texts as i;unicode-casemap does for letters with one form in each case (RFC 5051).
fn folded(text: &str) -> String {
    text.to_uppercase()
}
