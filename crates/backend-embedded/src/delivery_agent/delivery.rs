//! One connection's work: messages for one destination, sent one after another.

use std::collections::VecDeque;

use bytes::Bytes;
use mailapi_backend::read_bytes;
use mailapi_model::{Blob, Timestamp};
use mailapi_smtp::Envelope;
use mailapi_smtp::client::{Capabilities, Cause, End, Failure, Outcome, ServerLimits};
use mailapi_smtp_client::OutboundMessage;

use super::attempt_outcome::{AttemptOutcome, attempt_outcomes, follow_up};
use super::connect::{Destination, Link, NoLink};
use super::envelope::envelope;
use super::notices::{Tried, wants_notice};
use super::transactions::{Settled, room, transactions};
use super::{DeliveryAgent, Inner};
use crate::accept::delivered_to;
use crate::message_store::{MessageStoreError, unreadable};
use crate::queue::{Attempt, Notice, QueuedMessage, QueuedRecipient, RecipientResult};

/// A claimed message, with all recipients at one destination.
#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) message: QueuedMessage,
    pub(super) leased_until: Timestamp,
}

struct Delivery<'a> {
    delivery_agent: &'a Inner,
    destination: Destination,
    link: Option<Link>,
    /// A failed destination is not tried again within this delivery.
    unreachable: Option<NoLink>,
    /// Recipients that the servers took in one transaction, if they refused others for their number.
    most_recipients: Option<usize>,
}

/// Sends the messages to their destination.
pub(super) async fn run(delivery_agent: DeliveryAgent, destination: Destination, work: Vec<Claimed>) {
    let inner = &*delivery_agent.0;
    let mut delivery =
        Delivery { delivery_agent: inner, destination, link: None, unreachable: None, most_recipients: None };
    for claimed in work {
        let queue_id = claimed.message.queue_id.clone();
        if let Err(error) = delivery.carry(claimed).await {
            tracing::error!(%queue_id, %error, "message could not be read; it is retried when its lease ends");
        }
    }
    if let Some(link) = delivery.link {
        link.connection.close().await;
    }
}

/// Returns the copy that an alias forwards; `None` for mail to recipients that the sender named.
async fn forwarded(
    recipients: &[QueuedRecipient],
    message: &OutboundMessage,
) -> Result<Option<OutboundMessage>, MessageStoreError> {
    let Some(first) = recipients.first() else { return Ok(None) };
    let Some(alias) = &first.forwarded_by else { return Ok(None) };
    let copy = Blob::joined([delivered_to(alias, &first.through).into(), message.content().clone()]);
    Ok(Some(OutboundMessage::of(copy).await.map_err(unreadable)?))
}

impl Delivery<'_> {
    async fn carry(&mut self, Claimed { message, leased_until }: Claimed) -> Result<(), MessageStoreError> {
        if self.is_too_late(leased_until) {
            return Ok(());
        }
        if self.destination == Destination::Here {
            return if self.is_stopped(&message).await? { Ok(()) } else { self.notify_success(message).await };
        }
        let outbound = OutboundMessage::of(
            self.delivery_agent
                .message_store
                .buffer_range(message.layout.clone(), message.layout.as_submitted())
                .await?,
        );
        let outbound = outbound.await.map_err(unreadable)?;
        let max = self.delivery_agent.settings.max_recipients.max(1);
        let mut waiting: VecDeque<_> = transactions(&message.recipients, max).into();
        while let Some(recipients) = waiting.pop_front() {
            let part = QueuedMessage { recipients, ..message.clone() };
            // The earlier recipients may have taken long.
            if self.is_too_late(leased_until) || self.is_stopped(&part).await? {
                continue;
            }
            // Marked as in flight before the attempt: a lease may end before its result is recorded.
            let _in_flight = self.delivery_agent.in_flight.take(&part);
            let copy = forwarded(&part.recipients, &outbound).await?;
            let settled = self.try_once(&part, copy.as_ref().unwrap_or(&outbound)).await;
            self.record(settled.message, &settled.attempt_outcomes, &outbound).await;
            // A transaction settles at least one recipient, so the rest gets shorter.
            if !settled.rest.is_empty() {
                waiting.push_front(settled.rest);
            }
        }
        Ok(())
    }

    /// Returns whether an attempt could last longer than the lease. After its end, a message could be claimed and
    /// sent a second time, or removed by the operator.
    fn is_too_late(&self, leased_until: Timestamp) -> bool {
        let Inner { message_store, settings, .. } = self.delivery_agent;
        message_store.clock().now().plus(settings.time_limits.message) > leased_until
    }

    /// Returns whether the message was put on hold after its recipients were claimed, and releases the claims.
    ///
    /// The attempt begins with this look. The operator may remove the message only after the claims are released.
    async fn is_stopped(&self, message: &QueuedMessage) -> Result<bool, MessageStoreError> {
        let message_store = &self.delivery_agent.message_store;
        let is_held = message_store.is_held(message.key).await?;
        if is_held {
            let names = message.recipients.iter().map(|recipient| (message.key, recipient.position)).collect();
            message_store.put_off(names, message_store.clock().now()).await?;
        }
        Ok(is_held)
    }

    /// Sends the success notice of a recorded local delivery.
    async fn notify_success(&self, message: QueuedMessage) -> Result<(), MessageStoreError> {
        let mut range = message.layout.as_submitted();
        let headers = self.delivery_agent.settings.max_returned_header_bytes as u64;
        range.end = range.end.min(range.start.saturating_add(headers));
        let bytes = self.delivery_agent.message_store.load_range(message.layout.content, range).await?;
        let notified = Attempt::Notified;
        let tried: Vec<_> = message
            .recipients
            .iter()
            .map(|recipient| Tried { recipient, attempt_outcome: None, attempt: &notified })
            .collect();
        let notices = self.delivery_agent.notices(&message, &tried, &bytes).await;
        let _in_flight = self.delivery_agent.in_flight.take(&message);
        let result = |position| RecipientResult { position, attempt: Attempt::Notified, is_answered: false };
        let results = message.recipients.iter().map(|recipient| result(recipient.position)).collect();
        self.write_down(message, results, notices).await;
        Ok(())
    }

    /// Attempts one SMTP transaction, with as many of the recipients as the server takes in one.
    async fn try_once(&mut self, message: &QueuedMessage, outbound: &OutboundMessage) -> Settled {
        loop {
            let mut link = match self.link().await {
                Ok(link) => link,
                Err(no_link) => return Settled::all(message, &AttemptOutcome::without_link(&no_link)),
            };
            let offered = link.connection.capabilities();
            let envelope = self.envelope(message, offered).await;
            let adapted = match self.delivery_agent.adapted(message, &envelope, outbound, offered).await {
                Ok(adapted) => adapted,
                Err(attempt_outcome) => {
                    self.link = Some(link);
                    return Settled::all(message, &attempt_outcome);
                }
            };
            link.used += 1;
            let mut outcome = link.connection.send(&envelope, adapted.as_ref().unwrap_or(outbound)).await;
            if let End::Failed(Failure::Lost { cause: cause @ Cause::Unreadable(_), .. }) = &outcome.end {
                tracing::error!(queue_id = %message.queue_id, error = %cause, "message transfer aborted; it is retried later");
                return Settled::all(message, &AttemptOutcome::unreadable());
            }
            let (relay, was_kept) = (link.relay.clone(), link.used > 1);
            if link.connection.is_reusable() {
                self.link = Some(link);
            }
            // A reused connection may fail, for example at the server's message limit. The message was not
            // accepted, so it is sent again at once over a new connection.
            if !(was_kept && is_closed(&outcome)) {
                self.most_recipients = outcome.recipient_limit().or(self.most_recipients);
                if is_for_all(&outcome.end) {
                    outcome.rcpt_replies.resize(message.recipients.len(), None);
                }
                return Settled::of(message, &outcome, attempt_outcomes(&outcome, &relay, offered.dsn));
            }
        }
    }

    /// Returns the envelope with the first recipients, as many as fit in one transaction.
    async fn envelope(&self, message: &QueuedMessage, offered: Capabilities) -> Envelope {
        let learned = self.most_recipients.into_iter().chain(offered.limits.recipients).min();
        let limits = ServerLimits { recipients: learned, ..offered.limits };
        let mut envelope = envelope(message, self.delivery_agent.reverse_path(message).await);
        envelope.recipients.truncate(room(message.recipients.iter().map(|recipient| &recipient.address), limits));
        envelope
    }

    /// Returns the open connection, or a new one.
    async fn link(&mut self) -> Result<Link, NoLink> {
        if let Some(mut link) = self.link.take()
            && link.connection.is_reusable()
        {
            if !link.is_used_up() {
                return Ok(link);
            }
            link.connection.close().await;
        }
        if let Some(no_link) = &self.unreachable {
            return Err(no_link.clone());
        }
        self.delivery_agent
            .connect(&self.destination)
            .await
            .inspect_err(|no_link| self.unreachable = Some(no_link.clone()))
    }

    /// Records results, events and notices in one transaction.
    async fn record(&self, message: QueuedMessage, attempt_outcomes: &[AttemptOutcome], outbound: &OutboundMessage) {
        let Inner { message_store, settings, .. } = self.delivery_agent;
        let now = message_store.clock().now();
        let follow_up = |(recipient, attempt_outcome)| {
            follow_up(attempt_outcome, &message, recipient, settings, message_store.entropy(), now)
        };
        let attempts: Vec<Attempt> = message.recipients.iter().zip(attempt_outcomes).map(follow_up).collect();
        let tried: Vec<_> = message
            .recipients
            .iter()
            .zip(attempt_outcomes)
            .zip(&attempts)
            .map(|((recipient, attempt_outcome), attempt)| Tried {
                recipient,
                attempt_outcome: Some(attempt_outcome),
                attempt,
            })
            .collect();
        // Only a notice needs the text, which may have to be read from a file.
        let beginning = if wants_notice(&message, &tried) { self.beginning(outbound).await } else { Bytes::new() };
        let notices = self.delivery_agent.notices(&message, &tried, &beginning).await;
        drop(tried);
        let accepted = attempt_outcomes.iter().filter(|attempt_outcome| attempt_outcome.taken).count();
        let relay = attempt_outcomes.first().and_then(|attempt_outcome| attempt_outcome.relay.clone());
        tracing::info!(queue_id = %message.queue_id, relay, recipients = attempt_outcomes.len(), accepted, "delivery attempted");
        let result =
            |((recipient, outcome), attempt): ((&QueuedRecipient, &AttemptOutcome), Attempt)| RecipientResult {
                position: recipient.position,
                // The reply to an expired message is our own.
                is_answered: outcome.said_by_server && !matches!(attempt, Attempt::Expired { .. }),
                attempt,
            };
        let results = message.recipients.iter().zip(attempt_outcomes).zip(attempts).map(result).collect();
        self.write_down(message, results, notices).await;
    }

    /// Returns the beginning of a message for a notice; nothing if it cannot be read.
    async fn beginning(&self, outbound: &OutboundMessage) -> Bytes {
        let settings = &self.delivery_agent.settings;
        let whole = usize::try_from(settings.max_returned_message_bytes).unwrap_or(usize::MAX);
        let read = read_bytes(outbound.content(), 0..whole.max(settings.max_returned_header_bytes)).await;
        read.unwrap_or_else(|error| {
            tracing::error!(%error, "message could not be read for a notice; the notice omits it");
            Bytes::new()
        })
    }

    /// Retries until the result is recorded: a lost result would send the message again. Until then no other
    /// attempt starts for these recipients ([`super::in_flight`]).
    async fn write_down(&self, message: QueuedMessage, results: Vec<RecipientResult>, notices: Vec<Notice>) {
        let Inner { message_store, settings, .. } = self.delivery_agent;
        let mut pause = settings.first_record_pause;
        while let Err(error) = message_store.record(message.clone(), results.clone(), notices.clone()).await {
            tracing::error!(queue_id = %message.queue_id, %error, "delivery results could not be stored; retrying");
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(settings.longest_record_pause);
        }
    }
}

/// Returns whether the connection failed before the message was complete.
fn is_closed(outcome: &Outcome) -> bool {
    matches!(outcome.end, End::Failed(_))
}

/// Returns whether a failure also holds for recipients that the transaction had no room for. A permanent refusal of the
/// message may be that of one recipient's filter.
fn is_for_all(end: &End) -> bool {
    match end {
        End::Failed(_) => true,
        End::Refused { reply, .. } => reply.is_transient(),
        End::Accepted(_) | End::NoRecipients | End::OutcomeUnknown(_) => false,
    }
}
