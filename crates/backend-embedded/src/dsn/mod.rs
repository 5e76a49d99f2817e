//! Delivery status notifications: what we tell a sender about a message (RFC 3461, RFC 3464).
//!
//! Composing is pure: the same report with the same identifier and time gives the same octets. Who gets a report and
//! when is the courier's decision; that nobody gets one about a notification follows from its null reverse-path.

mod address;
mod compose;
mod status;

use std::ops::Range;

use mailapi_backend::mime::header_lines;
use mailapi_model::{EmailAddress, MessageId, QueueId, Reply, Timestamp};

pub(crate) use compose::{ComposeError, compose};

/// The local part of the author of notices, at our host name.
pub(crate) const MAILER_DAEMON: &str = "MAILER-DAEMON";

/// How much of a header block a notice returns unless it is set otherwise: 64 KiB.
pub(crate) const RETURNED_HEADER_BYTES: usize = 64 * 1024;

/// What became of a message for some of its recipients.
#[derive(Debug, Clone)]
pub(crate) struct Report<'a> {
    /// Our host name.
    pub(crate) hostname: &'a str,
    /// Our name of the message.
    pub(crate) queue_id: &'a QueueId,
    /// When we took it over.
    pub(crate) arrived_at: Timestamp,
    /// The sender's name for the envelope.
    pub(crate) envelope_id: Option<&'a str>,
    /// Who is told.
    pub(crate) sender: &'a EmailAddress,
    /// What became of it.
    pub(crate) action: Action,
    /// For whom.
    pub(crate) recipients: Vec<RecipientOutcome<'a>>,
    /// What comes back of the message.
    pub(crate) returned: Returned<'a>,
    /// The identifier of the report.
    pub(crate) id: MessageId,
    /// The present.
    pub(crate) now: Timestamp,
}

/// RFC 3464 section 2.3.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Given up.
    Failed,
    /// Not yet.
    Delayed,
    /// In the mailbox.
    Delivered,
    /// Handed to a server that gives no such notifications.
    Relayed,
}

/// What became of the message for one recipient.
#[derive(Debug, Clone)]
pub(crate) struct RecipientOutcome<'a> {
    /// Who.
    pub(crate) recipient: &'a EmailAddress,
    /// The ORCPT parameter as it was written.
    pub(crate) original: Option<&'a str>,
    /// The reply to the last attempt, or our own text in its place.
    pub(crate) reply: Option<Reply>,
    /// The server that answered last, as `host[address]:port`; `None` when none answered.
    pub(crate) relay: Option<&'a str>,
    /// That server's own reply, when `reply` is ours.
    pub(crate) said_before: Option<Reply>,
    /// When we will give up, for a delay.
    pub(crate) will_retry_until: Option<Timestamp>,
}

/// What comes back of the message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Returned<'a> {
    /// Its header block.
    Headers(&'a [u8]),
    /// All of it.
    Message(&'a [u8]),
}

/// Where the header block of a message lies, without the empty line, and not beyond `max` octets: whole lines only.
pub(crate) fn header_block(message: &[u8], max: usize) -> Range<usize> {
    let mut end = 0;
    for line in header_lines(message) {
        if end + line.len() > max {
            break;
        }
        end += line.len();
    }
    0..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_block_is_returned_in_whole_lines() {
        let message = b"A: 1\r\n \t\r\nB: 2\r\n\r\nC: 3\r\n";
        assert_eq!(header_block(message, 100), 0..16, "a line of white space continues a field");
        assert_eq!(header_block(message, 15), 0..10);
        assert_eq!(header_block(b"A: 1\r\n", 100), 0..6);
    }
}
