//! The data of ENVELOPE.

/// The header fields of ENVELOPE (RFC 3501 section 7.4.2), decoded. The encoder writes non-ASCII as encoded words
/// (RFC 2047).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The Date field as written.
    pub date: Option<String>,
    /// The subject.
    pub subject: Option<String>,
    /// From.
    pub from: Vec<Address>,
    /// Sender; if empty, the encoder writes From (RFC 3501 section 7.4.2).
    pub sender: Vec<Address>,
    /// Reply-To; if empty, the encoder writes From (RFC 3501 section 7.4.2).
    pub reply_to: Vec<Address>,
    /// To.
    pub to: Vec<Address>,
    /// Cc.
    pub cc: Vec<Address>,
    /// Bcc.
    pub bcc: Vec<Address>,
    /// In-Reply-To with its angle brackets.
    pub in_reply_to: Option<String>,
    /// Message-ID with its angle brackets.
    pub message_id: Option<String>,
}

/// An address, or the start or end of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A mailbox.
    Mailbox {
        /// The display name.
        name: Option<String>,
        /// The obsolete source route, such as `@a.example` (RFC 5322 section 4.4).
        route: Option<String>,
        /// The part before the `@`.
        local_part: String,
        /// The part after the `@`; empty if the address has none.
        domain: String,
    },
    /// The start of a group with its name.
    GroupStart(String),
    /// The end of a group.
    GroupEnd,
}
