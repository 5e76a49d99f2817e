//! What may be believed of bounces that come back as mail.
//!
//! Anybody can write such a notice. The backend has seen that it came to an address that only those know who got the
//! message; here it is seen that it tells something that can be true: of a recipient of that message, for whom it is
//! under way or was taken over, and no longer ago than servers try. Each recipient bounces once.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use mailapi_model::{DeliveryEvent, Evidence, RecipientStatus, Timestamp};
use mailapi_store::SentRecord;

use crate::{Service, Unavailable};

impl Service {
    /// The events without those that cannot be true, and without what is known already. The others are completed by
    /// what is known of their messages.
    ///
    /// # Errors
    /// [`Unavailable`] when the account database is.
    pub(super) async fn believable(&self, events: Vec<DeliveryEvent>) -> Result<Vec<DeliveryEvent>, Unavailable> {
        let (mut kept, mut seen) = (Vec::with_capacity(events.len()), HashSet::new());
        let (mut records, mut false_reports, mut known) = (HashMap::new(), 0_u64, 0_u64);
        for event in events {
            let (Evidence::ReturnedMail, Some(message_id)) = (event.evidence, event.message_id) else {
                kept.push(event);
                continue;
            };
            // One notice may tell of many recipients.
            if let Entry::Vacant(unread) = records.entry(message_id) {
                unread.insert(self.0.store.sent().get(message_id).await?);
            }
            let record = records.get(&message_id).and_then(Option::as_ref);
            let in_time = |record: &&SentRecord| event.at.since(left_at(record)) <= self.0.settings.bounce_lifetime;
            let is_new = seen.insert((message_id, event.recipient.clone()));
            match record.filter(in_time).and_then(|record| Some((record, status_of(record, &event)?))) {
                None => false_reports += 1,
                Some((record, status)) if is_new && can_bounce(status) => kept.push(completed(event, record)),
                Some(_) => known += 1,
            }
        }
        if false_reports > 0 {
            tracing::warn!(false_reports, "bounces that cannot be true have been ignored: late, or of what never was");
        }
        if known > 0 {
            tracing::debug!(known, "bounces came back as mail that were known already");
        }
        Ok(kept)
    }
}

fn status_of(record: &SentRecord, event: &DeliveryEvent) -> Option<RecipientStatus> {
    record.recipients.iter().find(|recipient| recipient.email == event.recipient).map(|recipient| recipient.status)
}

const fn can_bounce(status: RecipientStatus) -> bool {
    status.is_open() || matches!(status, RecipientStatus::Sent)
}

/// When the message was handed over.
fn left_at(record: &SentRecord) -> Timestamp {
    record.message.submitted_at.unwrap_or(record.message.created_at)
}

/// A notice does not tell under which name and when the message left.
fn completed(event: DeliveryEvent, record: &SentRecord) -> DeliveryEvent {
    let message = &record.message;
    let queue_id = if event.queue_id.0.is_empty() { message.queue_id.clone() } else { None };
    DeliveryEvent {
        queue_id: queue_id.unwrap_or(event.queue_id),
        sender: event.sender.or_else(|| Some(message.from.clone())),
        delay: if event.delay.is_zero() { event.at.since(left_at(record)) } else { event.delay },
        ..event
    }
}
