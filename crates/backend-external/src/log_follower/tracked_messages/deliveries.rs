//! Applies the end of delivery attempts to the recipients in the sender's envelope.

use std::sync::Arc;

use mailapi_model::{DeliveryEvent, EmailAddress, Evidence, InboundOutcome, MessageId, Outcome, QueueId, ReceivedMail};

use super::super::fact::{Delivery, address};
use super::super::line::Line;
use super::super::message::{Answer, Behind, Failed, Message, Origin, Waiting};
use super::super::report::Findings;
use super::super::submitted_ids::SubmittedIds;
use super::{TrackedMessages, inbound};

/// The programs that deliver into mailboxes of this installation.
const LOCAL_DELIVERY: [&str; 4] = ["lmtp", "virtual", "local", "pipe"];

/// Maximum number of deliveries kept for each message that may continue another one.
const MOST_NOTED: usize = 1000;

impl TrackedMessages {
    pub(super) fn deliver(
        &mut self,
        line: &Line<'_>,
        id: &str,
        delivery: &Delivery<'_>,
        submitted_ids: &SubmittedIds,
        findings: &mut Findings,
    ) {
        let message = self.open(line, id, Origin::Unknown);
        // An address without a domain, as sendmail(1) allows, is identified by its completed form.
        let Some(named) = delivery.orig_to.and_then(address).or_else(|| address(delivery.to)) else { return };
        let named = message.named(named);
        // This attempt replaces the previous one for the address.
        message.waiting.retain(|waiting| waiting.to != delivery.to);
        if delivery.outcome == Outcome::Deferred {
            message.waiting.push(Waiting {
                to: delivery.to.to_owned(),
                named: named.clone(),
                dsn: delivery.dsn,
                relay: delivery.relay.map(Arc::from),
                response: Arc::from(delivery.response),
                is_unsure: false,
            });
        } else {
            message.settled += 1;
        }
        message.confirm(delivery.orig_to, delivery.to, failed(delivery).is_some());
        // The next hop chooses its text, so an id counts only if its message entered meanwhile.
        let is_known = |next: &&str| message.successors.iter().any(|known| known.queue_id == *next);
        let successor = delivery.requeued_as(line.daemon).filter(is_known);
        let final_recipient = other_than(&named, delivery.to);
        let event = DeliveryEvent {
            at: line.at,
            message_id: message.message_id_for(&named, delivery.to),
            queue_id: QueueId(id.to_owned()),
            sender: message.reverse_path(),
            recipient: named,
            final_recipient,
            outcome: delivery.outcome,
            evidence: Evidence::MailServer,
            dsn: delivery.dsn,
            response: delivery.response.to_owned(),
            relay: delivery.relay.map(str::to_owned),
            delay: delivery.delay,
            next_attempt_at: None,
        };
        if let Some(message_id) = event.message_id
            && let Some(successor) = successor
        {
            return self.requeue((line.instance, id), message_id, successor, delivery.to, event, findings);
        }
        if event.final_recipient.is_some() && delivery.outcome != Outcome::Deferred {
            message.note_behind(&event.recipient, failed(delivery));
        }
        let is_local = LOCAL_DELIVERY.contains(&line.daemon) && delivery.outcome == Outcome::Sent;
        if is_local && is_inbound(message, event.message_id, submitted_ids.get(id, line.at)) {
            let outcome = if message.marked_as_spam { InboundOutcome::Spam } else { InboundOutcome::Accepted };
            findings.inbound.push(inbound(line, &event.recipient, event.sender.as_ref(), outcome));
        }
        if is_into_mailbox(line.daemon, delivery)
            && let Some(mailbox) = address(delivery.to)
        {
            let (queue_id, header_id) = (QueueId(id.to_owned()), message.header_id.clone());
            findings.received.push(ReceivedMail {
                at: line.at,
                mailbox,
                recipient: Some(event.recipient.clone()),
                queue_id,
                header_id,
                place: None,
                authentication: None,
            });
        }
        let shared = message.message_id.or(message.claims);
        self.note_for_predecessors(shared, line.instance, id, &event);
        findings.events.push(event);
    }

    /// Stores this message's deliveries in the messages that it may continue: the line that connects them may follow
    /// later.
    fn note_for_predecessors(&mut self, of: Option<MessageId>, instance: &str, id: &str, event: &DeliveryEvent) {
        let Some(keys) = of.and_then(|of| self.by_message.get(&of)).filter(|keys| !keys.is_empty()).cloned() else {
            return;
        };
        for (of, key) in keys.iter().filter(|(of, key)| (of.as_str(), key.as_str()) != (instance, id)) {
            let Some(message) = self.get(of, key) else { continue };
            let successor = message.successors.iter_mut().find(|successor| successor.queue_id == id);
            if let Some(successor) = successor.filter(|successor| successor.deliveries.len() < MOST_NOTED) {
                successor.deliveries.push(event.clone());
            }
        }
    }

    /// Handles a next hop's report that a submitted message continues under another id. For recipients that appear
    /// there, the deliveries under that id count. For the others, the next hop's acceptance counts.
    fn requeue(
        &mut self,
        (instance, id): (&str, &str),
        message_id: MessageId,
        successor: &str,
        to: &str,
        acceptance: DeliveryEvent,
        findings: &mut Findings,
    ) {
        let Some(to) = address(to) else { return };
        let named = acceptance.recipient.clone();
        let known = self
            .get(instance, id)
            .and_then(|message| message.successors.iter().find(|known| known.queue_id == successor).cloned());
        let is_discarded = known.as_ref().is_some_and(|known| known.is_discarded);
        let deliveries = known.map(|known| known.deliveries).unwrap_or_default();
        let (reached, others): (Vec<_>, Vec<_>) = deliveries.into_iter().partition(|event| {
            event.recipient == to || event.recipient == named || event.final_recipient.as_ref() == Some(&to)
        });
        let is_reached = !reached.is_empty();
        // Deliveries of a possible copy had no identifier yet: report them for this message.
        let of_copy = reached.into_iter().filter(|event| event.message_id.is_none()).map(|event| {
            let tried = event.final_recipient.unwrap_or(event.recipient);
            let final_recipient = Some(tried).filter(|tried| *tried != named);
            DeliveryEvent { message_id: Some(message_id), recipient: named.clone(), final_recipient, ..event }
        });
        let of_copy: Vec<_> = of_copy.collect();
        match self.key_now(successor) {
            Some((of, successor)) => {
                self.continue_in(&of, &successor, message_id, (&to, &named), &of_copy);
                // Wait for a delivery under the other id before reporting the acceptance.
                if let Some(message) = self.get(&of, &successor).filter(|_| !is_reached) {
                    message.answers.push(Answer { to, event: acceptance });
                }
            }
            // The continuation has left the queue: the acceptance counts if all of its known deliveries succeeded.
            None if !is_discarded && !is_reached && others.iter().all(|event| event.outcome == Outcome::Sent) => {
                findings.events.push(acceptance);
            }
            None => {}
        }
        findings.events.extend(of_copy);
    }

    /// Returns the instance and the id under which a message is in the queue. A requeued message is there under its new
    /// id; what is kept under the former one ends with the attempt.
    fn key_now(&self, id: &str) -> Option<(String, String)> {
        let (of, messages) = self.instances.iter().find(|(_, messages)| messages.contains_key(id))?;
        let continues = |message: &Message| message.orig_id.as_deref() == Some(id) && !message.is_former();
        let new_id = match self.is_former(of, id) {
            true => messages.iter().find(|(_, message)| continues(message)).map(|(new_id, _)| new_id.as_str()),
            false => None,
        };
        Some((of.clone(), new_id.unwrap_or(id).to_owned()))
    }

    /// Tracks the recipient at `to` under another id from now on.
    fn continue_in(
        &mut self,
        instance: &str,
        id: &str,
        message_id: MessageId,
        (to, named): (&EmailAddress, &EmailAddress),
        before: &[DeliveryEvent],
    ) {
        let Some(message) = self.get(instance, id) else { return };
        let is_new = message.claims == Some(message_id) && message.message_id.is_none();
        if is_new {
            message.message_id = Some(message_id);
        }
        if message.message_id == Some(message_id) && (message.claims.is_some() || to != named) {
            message.renamed.push((to.clone(), named.clone()));
        }
        for event in before.iter().filter(|event| event.final_recipient.is_some()) {
            let failure = Failed {
                outcome: event.outcome,
                dsn: event.dsn,
                relay: event.relay.as_deref().map(Arc::from),
                response: Arc::from(event.response.as_str()),
            };
            match event.outcome {
                Outcome::Sent => message.note_behind(named, None),
                // Postfix reports only recipients that it accepted, so `Failed` does not occur.
                Outcome::Deferred | Outcome::Failed => {}
                Outcome::Bounced | Outcome::Expired => message.note_behind(named, Some(failure)),
            }
        }
        if is_new {
            self.add_key(message_id, instance, id);
        }
    }

    pub(super) fn expire(&mut self, line: &Line<'_>, id: &str, findings: &mut Findings) {
        let message = self.open(line, id, Origin::Unknown);
        // Each recipient has a line from the attempt that just ended, unless its delivery ended before.
        message.drop_unsure();
        give_up(line, id, message, Outcome::Expired, |waiting| waiting, findings);
    }

    /// Closes a message that left the queue.
    pub(super) fn finish(&mut self, line: &Line<'_>, id: &str, findings: &mut Findings) {
        if let Some(message) = self.close(line.instance, id) {
            self.conclude(line, id, message, findings);
        }
    }

    /// Reports the recipients whose expanded addresses have all failed. While the message is in the queue under another
    /// id, that one inherits the results instead.
    pub(super) fn conclude(&mut self, line: &Line<'_>, id: &str, mut message: Message, findings: &mut Findings) {
        let Some(message_id) = message.message_id else { return };
        report_answers(&mut message, findings);
        let mut keys = self.by_message.get(&message_id).into_iter().flatten();
        let elsewhere = keys.find(|(instance, id)| !self.is_former(instance, id)).cloned();
        if let Some((instance, other)) = elsewhere {
            if let Some(other) = self.get(&instance, &other) {
                other.is_incomplete |= !message.is_settled();
                other.inherit(message.behind);
            }
        } else if message.is_settled() {
            let all_failed = message.behind.iter().filter(|behind| !behind.got_through);
            findings.events.extend(all_failed.filter_map(|behind| bounced(line, id, &message, behind)));
        }
    }
}

/// Reports the acceptances that named this message and were not followed by a delivery to the same address. A filter
/// may rewrite addresses, so a failure at an unnamed address may belong to one of them.
pub(super) fn report_answers(message: &mut Message, findings: &mut Findings) {
    if !message.has_other_failure {
        findings.events.extend(message.answers.drain(..).map(|answer| answer.event));
    }
}

/// Gives up the recipients that still wait.
pub(super) fn give_up(
    line: &Line<'_>,
    id: &str,
    message: &mut Message,
    outcome: Outcome,
    seen: impl Fn(Waiting) -> Waiting,
    findings: &mut Findings,
) {
    for waiting in std::mem::take(&mut message.waiting).into_iter().map(seen) {
        message.settled += 1;
        message.has_other_failure = true;
        let final_recipient = other_than(&waiting.named, &waiting.to);
        let failure = Failed { outcome, dsn: waiting.dsn, relay: waiting.relay, response: waiting.response };
        findings.events.push(given_up(line, id, message, &waiting.named, final_recipient.clone(), &failure));
        if final_recipient.is_some() {
            message.note_behind(&waiting.named, Some(failure));
        }
    }
}

/// Whether a delivery put the message into a mailbox of this installation. A content filter returns it instead: over
/// LMTP with a queue id, through pipe(8) without a sign. So only a service of pipe(8) with Dovecot's name counts.
fn is_into_mailbox(daemon: &str, delivery: &Delivery<'_>) -> bool {
    let is_dovecot = |relay: &str| relay.to_ascii_lowercase().starts_with("dovecot");
    let is_final = match daemon {
        "lmtp" => true,
        // The others are `delivered to file`, for an alias, and `forwarded as`.
        "local" | "virtual" => ["delivered to mailbox", "delivered to maildir", "delivered to command"]
            .iter()
            .any(|response| delivery.response.starts_with(response)),
        "pipe" => delivery.relay.is_some_and(is_dovecot),
        _ => false,
    };
    is_final && delivery.outcome == Outcome::Sent && delivery.requeued_as(daemon).is_none()
}

/// Whether a delivery into a local mailbox is mail from outside. A Message-ID in this service's form does not
/// disprove it: many mail programs write that form.
fn is_inbound(message: &Message, message_id: Option<MessageId>, in_reply: Option<MessageId>) -> bool {
    let has_our_proof = in_reply.is_some() || (message.claims.is_some() && message_id.is_some());
    let is_loopback = message.origin == Origin::Loopback && message_id.is_none();
    (message.from_outside || is_loopback) && !has_our_proof
}

/// Returns the bounce of a recipient if none of its expanded addresses received the message.
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
        message_id: message.message_id_for(recipient, recipient.as_str()),
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
        next_attempt_at: None,
    }
}

/// Returns the tried address if it differs from the recipient in the sender's envelope.
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
