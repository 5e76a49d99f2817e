//! One connection's worth of work: messages for one destination, one after the other.

use bytes::Bytes;
use mailapi_model::Timestamp;
use mailapi_smtp::client::{End, Outcome};

use super::connect::{Destination, NoLink};
use super::envelope::envelope;
use super::letter::Letter;
use super::notices::{Tried, wants_notice};
use super::transfer::Link;
use super::verdict::{Finding, findings, follow_up};
use super::{Courier, Inner};
use crate::maildrop::{MaildropError, unreadable};
use crate::queue::{Attempt, Notice, QueuedMessage, RecipientResult};

/// A claimed message, its recipients all of one destination.
#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) message: QueuedMessage,
    pub(super) leased_until: Timestamp,
}

struct Errand<'a> {
    courier: &'a Inner,
    destination: Destination,
    link: Option<Link>,
    /// Once the destination could not be reached, it is not tried again for the rest of the errand.
    unreachable: Option<NoLink>,
}

/// Takes the messages where they go.
pub(super) async fn run(courier: Courier, destination: Destination, work: Vec<Claimed>) {
    let inner = &*courier.0;
    let mut errand = Errand { courier: inner, destination, link: None, unreachable: None };
    for Claimed { message, leased_until } in work {
        // Should the lease end in the middle of the message, somebody else might send it too.
        if inner.maildrop.clock().now().plus(inner.settings.message_timeout) > leased_until {
            continue;
        }
        let queue_id = message.queue_id.clone();
        if let Err(error) = errand.carry(message).await {
            tracing::error!(%queue_id, %error, "a message could not be read; it is tried again");
        }
    }
    if let Some(link) = errand.link {
        link.quit(&inner.settings).await;
    }
}

impl Errand<'_> {
    async fn carry(&mut self, message: QueuedMessage) -> Result<(), MaildropError> {
        if self.destination == Destination::Here {
            return self.tell(message).await;
        }
        let letter =
            Letter::of(self.courier.maildrop.spool_range(message.layout, message.layout.as_handed_over()).await?);
        let letter = letter.await.map_err(unreadable)?;
        for recipients in message.recipients.chunks(self.courier.settings.max_recipients.max(1)) {
            let part = QueuedMessage { recipients: recipients.to_vec(), ..message.clone() };
            let _in_hand = self.courier.in_hand.take(&part);
            let findings = self.try_once(&part, &letter).await;
            self.record(part, &findings, &letter).await;
        }
        Ok(())
    }

    /// Tells the sender of deliveries that are on record already.
    async fn tell(&self, message: QueuedMessage) -> Result<(), MaildropError> {
        let mut range = message.layout.as_handed_over();
        let headers = self.courier.settings.max_returned_header_bytes as u64;
        range.end = range.end.min(range.start.saturating_add(headers));
        let octets = self.courier.maildrop.load_range(message.layout.content, range).await?;
        let told = Attempt::Told;
        let tried: Vec<_> =
            message.recipients.iter().map(|recipient| Tried { recipient, finding: None, attempt: &told }).collect();
        let notices = self.courier.notices(&message, &tried, &octets).await;
        let _in_hand = self.courier.in_hand.take(&message);
        let result = |position| RecipientResult { position, attempt: Attempt::Told };
        let results = message.recipients.iter().map(|recipient| result(recipient.position)).collect();
        self.write_down(message, results, notices).await;
        Ok(())
    }

    /// One transaction; a finding for each recipient.
    async fn try_once(&mut self, message: &QueuedMessage, letter: &Letter) -> Vec<Finding> {
        loop {
            let settings = &self.courier.settings;
            let mut link = match self.link().await {
                Ok(link) => link,
                Err(no_link) => return vec![Finding::without_link(&no_link); message.recipients.len()],
            };
            let offered = link.client.capabilities();
            let envelope = envelope(message, self.courier.reverse_path(message).await, offered);
            let outcome = match link.send(&envelope, letter, settings).await {
                Ok(outcome) => outcome,
                Err(error) => {
                    tracing::error!(queue_id = %message.queue_id, %error, "a message could not be read while it was sent");
                    return vec![Finding::unreadable(); message.recipients.len()];
                }
            };
            let (relay, was_kept) = (link.relay.clone(), link.used > 1);
            if link.client.is_ready() {
                self.link = Some(link);
            }
            // A kept connection may fail, for instance after the server's message limit, or when replies are out of
            // step.
            // Nothing was taken, so the message goes over a new connection at once.
            if !(was_kept && is_closed(&outcome)) {
                return findings(&outcome, &relay, offered.dsn);
            }
        }
    }

    /// The connection that was kept, or a new one.
    async fn link(&mut self) -> Result<Link, NoLink> {
        if let Some(mut link) = self.link.take()
            && link.is_usable()
        {
            return Ok(link);
        }
        if let Some(no_link) = &self.unreachable {
            return Err(no_link.clone());
        }
        self.courier.connect(&self.destination).await.inspect_err(|no_link| self.unreachable = Some(no_link.clone()))
    }

    /// Results, events and notices in one transaction.
    async fn record(&self, message: QueuedMessage, findings: &[Finding], letter: &Letter) {
        let Inner { maildrop, settings, .. } = self.courier;
        let now = maildrop.clock().now();
        let follow_up =
            |(recipient, finding)| follow_up(finding, &message, recipient, settings, maildrop.entropy(), now);
        let attempts: Vec<Attempt> = message.recipients.iter().zip(findings).map(follow_up).collect();
        let tried: Vec<_> = message
            .recipients
            .iter()
            .zip(findings)
            .zip(&attempts)
            .map(|((recipient, finding), attempt)| Tried { recipient, finding: Some(finding), attempt })
            .collect();
        let beginning = if wants_notice(&message, &tried) { self.beginning(letter).await } else { Bytes::new() };
        let notices = self.courier.notices(&message, &tried, &beginning).await;
        drop(tried);
        let taken = findings.iter().filter(|finding| finding.taken).count();
        let relay = findings.first().and_then(|finding| finding.relay.clone());
        tracing::info!(queue_id = %message.queue_id, relay, tried = findings.len(), taken, "a message was tried");
        let result = |(position, attempt)| RecipientResult { position, attempt };
        let positions: Vec<_> = message.recipients.iter().map(|recipient| recipient.position).collect();
        let results = positions.into_iter().zip(attempts).map(result).collect();
        self.write_down(message, results, notices).await;
    }

    /// What a notice may return of a message; nothing when it cannot be read.
    async fn beginning(&self, letter: &Letter) -> Bytes {
        let settings = &self.courier.settings;
        let whole = usize::try_from(settings.max_returned_message_bytes).unwrap_or(usize::MAX);
        let read = letter.beginning(whole.max(settings.max_returned_header_bytes)).await;
        read.unwrap_or_else(|error| {
            tracing::error!(%error, "a message cannot be read for a notice");
            Bytes::new()
        })
    }

    /// Does not give up: were the result forgotten, the message would go out once more. Meanwhile nobody else tries
    /// these recipients, however long it takes ([`super::in_hand`]).
    async fn write_down(&self, message: QueuedMessage, results: Vec<RecipientResult>, notices: Vec<Notice>) {
        let Inner { maildrop, settings, .. } = self.courier;
        let mut pause = settings.first_record_pause;
        while let Err(error) = maildrop.record(message.clone(), results.clone(), notices.clone()).await {
            tracing::error!(queue_id = %message.queue_id, %error, "what became of a message is not on record yet");
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(settings.longest_record_pause);
        }
    }
}

/// Whether the connection failed before the message was complete.
fn is_closed(outcome: &Outcome) -> bool {
    matches!(outcome.end, End::Failed(_))
}
