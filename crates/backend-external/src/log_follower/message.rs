//! The state of one message in Postfix's queue, as far as the log describes it.

use std::sync::Arc;

use mailapi_model::{DeliveryEvent, EmailAddress, EnhancedCode, MessageId, Outcome, Reply, ReversePath, Timestamp};
use serde::{Deserialize, Serialize};

use super::fact::address;
use super::stored::{self, StoredEvent};

/// Where a message came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Origin {
    /// Unknown: its first lines precede the log, or another program wrote them.
    Unknown,
    /// From an unauthenticated client of a public listener.
    Outside,
    /// Like `Outside`, but from a client on this machine: content filters return mail this way.
    Loopback,
    /// From an authenticated client, or through a listener with a service name.
    Submitted,
    /// From sendmail(1), or requeued.
    PickedUp,
    /// Created by Postfix: a bounce, or a forwarded copy.
    Internal,
}

/// A recipient that waits for the next attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Waiting {
    /// The address that Postfix delivers to.
    pub(super) to: String,
    /// The recipient in the sender's envelope.
    #[serde(with = "stored")]
    pub(super) named: EmailAddress,
    #[serde(with = "stored")]
    pub(super) dsn: Option<EnhancedCode>,
    #[serde(with = "stored")]
    pub(super) relay: Option<Arc<str>>,
    #[serde(with = "stored")]
    pub(super) response: Arc<str>,
    /// Whether a later outcome may be missing.
    pub(super) is_unsure: bool,
}

/// The results for the addresses that a recipient expands to: the members of an alias, or the target of a forwarding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Behind {
    /// The recipient in the sender's envelope.
    #[serde(with = "stored")]
    pub(super) named: EmailAddress,
    /// Whether one of the addresses received the message.
    pub(super) got_through: bool,
    /// The most recent failure among them.
    pub(super) failure: Option<Failed>,
}

/// A permanent failure of an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failed {
    #[serde(with = "stored")]
    pub(super) outcome: Outcome,
    #[serde(with = "stored")]
    pub(super) dsn: Option<EnhancedCode>,
    #[serde(with = "stored")]
    pub(super) relay: Option<Arc<str>>,
    #[serde(with = "stored")]
    pub(super) response: Arc<str>,
}

/// The loss of a queue file during a delivery attempt, which continues: the delivery agent has the file open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Left {
    #[serde(with = "stored")]
    pub(super) at: Timestamp,
    /// Whether the message was requeued, and continues under another id; otherwise it was deleted.
    pub(super) is_requeued: bool,
}

/// A message in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Message {
    #[serde(with = "stored")]
    pub(super) first_seen: Timestamp,
    #[serde(with = "stored")]
    pub(super) last_seen: Timestamp,
    pub(super) origin: Origin,
    /// Whether its Message-ID line was read. A message can have several; the first one counts.
    pub(super) has_header: bool,
    /// Whether it is certainly in the queue, and no longer being received.
    pub(super) queued: bool,
    /// Whether Postfix restarted since its newest line: the process that received it is gone.
    pub(super) cut_off: bool,
    /// Whether its queue id certainly contains the inode number of its file: the queue was not copied since it arrived.
    pub(super) is_inode_sure: bool,
    /// Whether outcomes may be missing.
    pub(super) is_unsure: bool,
    /// Whether it is on hold.
    pub(super) held: bool,
    /// How many of its addresses may be in a delivery attempt; [`u64::MAX`] if the log lacks their number.
    pub(super) in_attempt: u64,
    /// Whether `postsuper -d ALL` may have deleted it since it was last active.
    pub(super) perhaps_deleted: bool,
    /// The loss of its queue file during a delivery attempt.
    pub(super) left: Option<Left>,
    pub(super) marked_as_spam: bool,
    /// Its first Message-ID header.
    #[serde(default)]
    pub(super) header_id: Option<String>,
    /// The identifier of the submitted message.
    #[serde(with = "stored")]
    pub(super) message_id: Option<MessageId>,
    /// The identifier, if the message may be a copy that someone sent. Then only the recipients are reported for
    /// which a submitted message continues here.
    #[serde(with = "stored")]
    pub(super) claims: Option<MessageId>,
    /// Whether it came from outside, or continues a message that did.
    pub(super) from_outside: bool,
    /// The reverse-path; `None` while unknown.
    #[serde(with = "stored")]
    pub(super) sender: Option<ReversePath>,
    pub(super) waiting: Vec<Waiting>,
    /// Messages with the same Message-ID that entered while this one was in the queue.
    pub(super) successors: Vec<Successor>,
    /// For a continuation: the sender's recipient for each of its recipients.
    #[serde(with = "stored")]
    pub(super) renamed: Vec<(EmailAddress, EmailAddress)>,
    /// The recipients that the listener refused.
    pub(super) refused: Vec<RefusedRecipient>,
    /// The number of addresses to deliver to; `None` while unknown.
    pub(super) recipients: Option<u64>,
    /// For how many of them delivery has ended.
    pub(super) settled: u64,
    /// For how many of them delivery had ended before it was requeued.
    pub(super) settled_before: u64,
    /// Whether the log is incomplete for a message that this one continues.
    pub(super) is_incomplete: bool,
    /// Its queue id before it was requeued.
    pub(super) orig_id: Option<String>,
    /// Results for recipients that expand to other addresses.
    pub(super) behind: Vec<Behind>,
    /// Acceptances by the next hop that named this message, until a delivery to the same address confirms them.
    pub(super) answers: Vec<Answer>,
    /// Whether delivery failed for an address that no acceptance named.
    pub(super) has_other_failure: bool,
}

/// A message that may continue another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Successor {
    pub(super) queue_id: String,
    /// Its deliveries so far. Not saved: the line that connects the two follows at once.
    #[serde(skip)]
    pub(super) deliveries: Vec<DeliveryEvent>,
    /// Whether it was discarded before it entered the queue.
    pub(super) is_discarded: bool,
}

impl Successor {
    pub(super) fn new(queue_id: &str) -> Self {
        Self { queue_id: queue_id.to_owned(), deliveries: Vec::new(), is_discarded: false }
    }
}

/// A next hop's acceptance of a recipient that named another queue id of this Postfix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// The address that was transmitted.
    #[serde(with = "stored")]
    pub(super) to: EmailAddress,
    /// The event to report if the other message has no delivery to that address.
    #[serde(with = "StoredEvent")]
    pub(super) event: DeliveryEvent,
}

/// A recipient that the listener refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RefusedRecipient {
    /// The reverse-path of the transaction; `None` if the line does not contain it.
    #[serde(with = "stored")]
    pub(super) sender: Option<ReversePath>,
    #[serde(with = "stored")]
    pub(super) recipient: EmailAddress,
    #[serde(with = "stored")]
    pub(super) reply: Reply,
}

impl Message {
    pub(super) const fn new(at: Timestamp, origin: Origin) -> Self {
        Self {
            first_seen: at,
            last_seen: at,
            origin,
            has_header: false,
            queued: false,
            cut_off: false,
            is_inode_sure: false,
            is_unsure: false,
            held: false,
            in_attempt: 0,
            perhaps_deleted: false,
            left: None,
            marked_as_spam: false,
            header_id: None,
            message_id: None,
            claims: None,
            from_outside: matches!(origin, Origin::Outside),
            sender: None,
            waiting: Vec::new(),
            successors: Vec::new(),
            renamed: Vec::new(),
            refused: Vec::new(),
            recipients: None,
            settled: 0,
            settled_before: 0,
            is_incomplete: false,
            orig_id: None,
            behind: Vec::new(),
            answers: Vec::new(),
            has_other_failure: false,
        }
    }

    /// Removes and returns the recipients that the listener refused for this message. Refusals of an earlier
    /// transaction with another sender are dropped.
    pub(super) fn take_refused(&mut self) -> impl Iterator<Item = RefusedRecipient> {
        let refused = std::mem::take(&mut self.refused).into_iter();
        refused.filter(|one| one.sender.is_none() || one.sender == self.sender)
    }

    /// Sets the number of recipients. The first value counts: later lines may omit recipients whose delivery has ended.
    pub(super) fn expect_recipients(&mut self, recipients: Option<u64>) {
        self.recipients = self.recipients.or(recipients);
    }

    /// Begins a delivery attempt for each of the queue file's `recipients` whose delivery has not ended. A requeued
    /// file has only the recipients that pickup(8) found, regardless of earlier lines.
    pub(super) fn begin_attempt(&mut self, recipients: Option<u64>) {
        self.held = false;
        self.perhaps_deleted = false;
        let settled = self.settled.saturating_sub(self.settled_before);
        self.in_attempt = recipients.map_or(u64::MAX, |recipients| recipients.saturating_sub(settled));
    }

    /// Notes that outcomes may be missing.
    pub(super) fn doubt(&mut self) {
        self.is_unsure = true;
        self.waiting.iter_mut().for_each(|waiting| waiting.is_unsure = true);
    }

    /// Leaves the recipients open whose newest outcome may be missing.
    pub(super) fn drop_unsure(&mut self) {
        let count = self.waiting.len();
        self.waiting.retain(|waiting| !waiting.is_unsure);
        self.is_incomplete |= self.waiting.len() < count;
    }

    /// Notes that the attempt for one address ended.
    pub(super) const fn end_attempt(&mut self) {
        if self.in_attempt != u64::MAX {
            self.in_attempt = self.in_attempt.saturating_sub(1);
        }
    }

    /// Whether it was requeued while a delivery attempt under its former id continues.
    pub(super) fn is_former(&self) -> bool {
        self.left.is_some_and(|left| left.is_requeued)
    }

    /// Notes the end of delivery to an address that the recipient `named` expands to.
    pub(super) fn note_behind(&mut self, named: &EmailAddress, failure: Option<Failed>) {
        let place = self.behind.iter().position(|behind| behind.named == *named).unwrap_or_else(|| {
            self.behind.push(Behind { named: named.clone(), got_through: false, failure: None });
            self.behind.len() - 1
        });
        match failure {
            None => self.behind[place].got_through = true,
            Some(_) => self.behind[place].failure = failure,
        }
    }

    /// Adds the results of a message that this one continues.
    pub(super) fn inherit(&mut self, ended: Vec<Behind>) {
        for Behind { named, got_through, failure } in ended {
            if got_through {
                self.note_behind(&named, None);
            }
            if failure.is_some() {
                self.note_behind(&named, failure);
            }
        }
    }

    /// Whether the log has a final outcome for every address.
    pub(super) fn is_settled(&self) -> bool {
        let has_ended = self.recipients.is_some_and(|recipients| self.settled >= recipients);
        has_ended && self.waiting.is_empty() && !self.is_incomplete
    }

    /// Returns the sender's recipient for an address that the message was delivered to.
    pub(super) fn named(&self, recipient: EmailAddress) -> EmailAddress {
        let renamed = self.renamed.iter().find(|(to, _)| *to == recipient);
        renamed.map_or(recipient, |(_, named)| named.clone())
    }

    /// Returns the identifier to report for a recipient that was tried at the address `to`. A possible copy reports
    /// only recipients for which a submitted message continues in it.
    pub(super) fn message_id_for(&self, named: &EmailAddress, to: &str) -> Option<MessageId> {
        let is_being_submitted =
            |(from, of): &(EmailAddress, EmailAddress)| of == named || address(to).as_ref() == Some(from);
        let is_ours = self.claims.is_none() || self.renamed.iter().any(is_being_submitted);
        self.message_id.filter(|_| is_ours)
    }

    /// Notes a delivery to an address. It confirms acceptances of that address, whatever its outcome.
    pub(super) fn confirm(&mut self, orig_to: Option<&str>, to: &str, is_failure: bool) {
        let count = self.answers.len();
        let is_confirmed = |answer: &Answer| {
            [Some(to), orig_to].into_iter().flatten().any(|tried| address(tried).as_ref() == Some(&answer.to))
        };
        self.answers.retain(|answer| !is_confirmed(answer));
        self.has_other_failure |= is_failure && self.answers.len() == count;
    }

    /// Returns the reverse-path. An unknown one becomes the null one, since the port has no third value.
    pub(super) fn reverse_path(&self) -> ReversePath {
        self.sender.clone().flatten()
    }
}
