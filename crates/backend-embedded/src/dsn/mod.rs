//! Delivery status notifications to the sender of a message (RFC 3461, RFC 3464).
//!
//! Composing is pure: the same report with the same identifier and time gives the same bytes. The delivery
//! agent decides who gets a report and when. Notifications have a null reverse-path, so they are never
//! reported themselves.

mod address;
mod compose;
mod status;

use std::ops::Range;

use mailapi_backend::mime::header_lines;
use mailapi_model::{EmailAddress, MessageId, QueueId, Reply, Timestamp};

pub(crate) use compose::{ComposeError, compose};

/// Local part of the author of notices, at our host name.
pub(crate) const MAILER_DAEMON: &str = "MAILER-DAEMON";

/// Default maximum size of the header block in a notice: 64 KiB.
pub(crate) const RETURNED_HEADER_BYTES: usize = 64 * 1024;

/// The outcome of a message for some of its recipients.
#[derive(Debug, Clone)]
pub(crate) struct Report<'a> {
    /// Our host name.
    pub(crate) hostname: &'a str,
    /// Our queue id of the message.
    pub(crate) queue_id: &'a QueueId,
    /// Time at which this server accepted the message.
    pub(crate) arrived_at: Timestamp,
    /// The sender's envelope identifier.
    pub(crate) envelope_id: Option<&'a str>,
    /// The recipient of the report.
    pub(crate) sender: &'a EmailAddress,
    /// The outcome.
    pub(crate) action: Action,
    /// The reported recipients.
    pub(crate) recipients: Vec<RecipientOutcome<'a>>,
    /// The returned part of the message.
    pub(crate) returned: Returned<'a>,
    /// Identifier of the report.
    pub(crate) id: MessageId,
    /// The current time.
    pub(crate) now: Timestamp,
}

/// The outcome of a delivery (RFC 3464 section 2.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Failed permanently.
    Failed,
    /// Still being retried.
    Delayed,
    /// Delivered to the mailbox.
    Delivered,
    /// Relayed to a server without support for notifications.
    Relayed,
}

/// The outcome for one recipient.
#[derive(Debug, Clone)]
pub(crate) struct RecipientOutcome<'a> {
    /// The recipient.
    pub(crate) recipient: &'a EmailAddress,
    /// The ORCPT parameter as received.
    pub(crate) original: Option<&'a str>,
    /// The reply to the last attempt, or our own text instead.
    pub(crate) reply: Option<Reply>,
    /// The last server that replied, as `host[address]:port`; `None` if none did.
    pub(crate) relay: Option<&'a str>,
    /// That server's own reply if `reply` is ours.
    pub(crate) said_before: Option<Reply>,
    /// End of the retries, for a delay.
    pub(crate) will_retry_until: Option<Timestamp>,
}

/// The returned part of the message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Returned<'a> {
    /// Its header block.
    Headers(&'a [u8]),
    /// The whole message.
    Message(&'a [u8]),
}

/// Returns the range of a message's header block, without the empty line: whole lines, at most `max` bytes.
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
