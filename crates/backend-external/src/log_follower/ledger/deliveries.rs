//! What the ends of tries mean for the recipients that senders named.

use std::sync::Arc;

use mailapi_model::{DeliveryEvent, EmailAddress, Evidence, InboundOutcome, MessageId, Outcome, QueueId};

use super::super::fact::{Delivery, address};
use super::super::line::Line;
use super::super::message::{Behind, Failed, Message, Origin, Waiting};
use super::super::report::Findings;
use super::{Ledger, inbound};

/// What an operator's `postsuper -d` means for a recipient that was still waiting.
const DELETED: &str = "deleted from the queue by the operator";
/// The programs that deliver into mailboxes of this installation.
const LOCAL_DELIVERY: [&str; 4] = ["lmtp", "virtual", "local", "pipe"];

impl Ledger {
    pub(super) fn deliver(&mut self, line: &Line<'_>, id: &str, delivery: &Delivery<'_>, findings: &mut Findings) {
        let message = self.open(line, id, Origin::Unknown);
        // An address without a domain, as sendmail(1) may name it, is told apart by the one it was completed to.
        let Some(named) = delivery.orig_to.and_then(address).or_else(|| address(delivery.to)) else { return };
        let named = message.named(named);
        message.waiting.retain(|waiting| waiting.to != delivery.to);
        if delivery.outcome == Outcome::Deferred {
            message.waiting.push(Waiting {
                to: delivery.to.to_owned(),
                named: named.clone(),
                dsn: delivery.dsn,
                relay: delivery.relay.map(Arc::from),
                response: Arc::from(delivery.response),
            });
        } else {
            message.settled += 1;
        }
        let successor = delivery.handed_over_as().filter(|next| message.successors.iter().any(|known| known == next));
        let (message_id, sender) = (message.message_id, message.reverse_path());
        if let Some(message_id) = message_id
            && let Some(successor) = successor
        {
            return self.hand_over(message_id, successor, delivery.to, named);
        }
        let final_recipient = other_than(&named, delivery.to);
        if final_recipient.is_some() && delivery.outcome != Outcome::Deferred {
            message.note_behind(&named, failed(delivery));
        }
        let is_inbound = message.origin == Origin::Outside || message.origin == Origin::Loopback;
        let is_local = LOCAL_DELIVERY.contains(&line.daemon) && delivery.outcome == Outcome::Sent;
        if is_inbound && is_local && message_id.is_none() {
            let outcome = if message.marked_as_spam { InboundOutcome::Spam } else { InboundOutcome::Accepted };
            findings.inbound.push(inbound(line, &named, sender.as_ref(), outcome));
        }
        findings.events.push(DeliveryEvent {
            at: line.at,
            message_id,
            queue_id: QueueId(id.to_owned()),
            sender,
            recipient: named,
            final_recipient,
            outcome: delivery.outcome,
            evidence: Evidence::MailServer,
            dsn: delivery.dsn,
            response: delivery.response.to_owned(),
            relay: delivery.relay.map(str::to_owned),
            delay: delivery.delay,
        });
    }

    /// A message of ours went on under another id: what becomes of it there is what counts.
    fn hand_over(&mut self, message_id: MessageId, successor: &str, to: &str, named: EmailAddress) {
        for (instance, messages) in &mut self.instances {
            let Some(message) = messages.get_mut(successor) else { continue };
            if message.claims == Some(message_id) {
                message.claims = None;
                message.message_id = Some(message_id);
                self.by_message.entry(message_id).or_default().push((instance.clone(), successor.to_owned()));
            }
            if message.message_id == Some(message_id)
                && let Some(to) = address(to).filter(|to| *to != named)
            {
                message.renamed.push((to, named.clone()));
            }
        }
    }

    pub(super) fn expire(&mut self, line: &Line<'_>, id: &str, findings: &mut Findings) {
        let message = self.open(line, id, Origin::Unknown);
        give_up(line, id, message, Outcome::Expired, |waiting| waiting, findings);
    }

    pub(super) fn delete(&mut self, line: &Line<'_>, id: &str, findings: &mut Findings) {
        let Some(mut message) = self.close(line.instance, id) else { return };
        let deleted = |one: Waiting| Waiting { response: Arc::from(DELETED), dsn: None, relay: None, ..one };
        give_up(line, id, &mut message, Outcome::Bounced, deleted, findings);
        self.conclude(line, id, message, findings);
    }

    /// The message has left the queue.
    pub(super) fn finish(&mut self, line: &Line<'_>, id: &str, findings: &mut Findings) {
        if let Some(message) = self.close(line.instance, id) {
            self.conclude(line, id, message, findings);
        }
    }

    /// Tells of the recipients for whom every address that stands behind them has failed. While the message is in the
    /// queue under another id it is too early for that.
    fn conclude(&mut self, line: &Line<'_>, id: &str, message: Message, findings: &mut Findings) {
        let Some(message_id) = message.message_id else { return };
        let elsewhere = self.by_message.get(&message_id).and_then(|keys| keys.first()).cloned();
        if let Some((instance, other)) = elsewhere {
            if let Some(other) = self.get(&instance, &other) {
                other.is_incomplete |= !message.is_settled();
                other.take_over(message.behind);
            }
        } else if message.is_settled() {
            let all_failed = message.behind.iter().filter(|behind| !behind.got_through);
            findings.events.extend(all_failed.filter_map(|behind| bounced(line, id, &message, behind)));
        }
    }
}

/// The recipients that are still waiting are given up.
fn give_up(
    line: &Line<'_>,
    id: &str,
    message: &mut Message,
    outcome: Outcome,
    seen: impl Fn(Waiting) -> Waiting,
    findings: &mut Findings,
) {
    for waiting in std::mem::take(&mut message.waiting).into_iter().map(seen) {
        message.settled += 1;
        let final_recipient = other_than(&waiting.named, &waiting.to);
        let failure = Failed { outcome, dsn: waiting.dsn, relay: waiting.relay, response: waiting.response };
        findings.events.push(given_up(line, id, message, &waiting.named, final_recipient.clone(), &failure));
        if final_recipient.is_some() {
            message.note_behind(&waiting.named, Some(failure));
        }
    }
}

/// That none of the addresses behind a recipient got the message.
fn bounced(line: &Line<'_>, id: &str, message: &Message, behind: &Behind) -> Option<DeliveryEvent> {
    let failure = behind.failure.as_ref()?;
    Some(given_up(line, id, message, &behind.named, None, failure))
}

fn given_up(
    line: &Line<'_>,
    id: &str,
    message: &Message,
    recipient: &EmailAddress,
    final_recipient: Option<EmailAddress>,
    failure: &Failed,
) -> DeliveryEvent {
    DeliveryEvent {
        at: line.at,
        message_id: message.message_id,
        queue_id: QueueId(id.to_owned()),
        sender: message.reverse_path(),
        recipient: recipient.clone(),
        final_recipient,
        outcome: failure.outcome,
        evidence: Evidence::MailServer,
        dsn: failure.dsn,
        response: failure.response.as_ref().to_owned(),
        relay: failure.relay.as_deref().map(str::to_owned),
        delay: line.at.since(message.first_seen),
    }
}

/// The address that was tried, where it is another one than the recipient that the sender named.
fn other_than(named: &EmailAddress, to: &str) -> Option<EmailAddress> {
    address(to).filter(|to| to != named)
}

fn failed(delivery: &Delivery<'_>) -> Option<Failed> {
    let failure = Failed {
        outcome: delivery.outcome,
        dsn: delivery.dsn,
        relay: delivery.relay.map(Arc::from),
        response: Arc::from(delivery.response),
    };
    matches!(delivery.outcome, Outcome::Bounced | Outcome::Expired).then_some(failure)
}
