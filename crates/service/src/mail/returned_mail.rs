//! What may be believed of bounces that come back as mail.
//!
//! Anybody can write such a notice. The backend has seen that it came to an address that only those know who got the
//! message; here it is seen that it tells something that can be true: of a recipient of that message, for whom it is
//! under way or was taken over, and no longer ago than servers try. Each recipient bounces once, and so does each of the
//! addresses that stand behind one.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use mailapi_model::{DeliveryEvent, EmailAddress, Evidence, MessageId, RecipientStatus, Scope, Timestamp};
use mailapi_store::{Member, SentRecord};

use crate::{Service, Unavailable};

/// What is known of a message before its notices are read.
struct Known {
    record: SentRecord,
    members: Vec<Member>,
}

impl Service {
    /// The events without those that cannot be true, and without what is known already. The others are completed by
    /// what is known of their messages.
    ///
    /// # Errors
    /// [`Unavailable`] when the account database is.
    pub(super) async fn believable(&self, events: Vec<DeliveryEvent>) -> Result<Vec<DeliveryEvent>, Unavailable> {
        let (mut kept, mut seen) = (Vec::with_capacity(events.len()), HashSet::new());
        let (mut messages, mut false_reports, mut old_news) = (HashMap::new(), 0_u64, 0_u64);
        for event in events {
            let (Evidence::ReturnedMail, Some(message_id)) = (event.evidence, event.message_id) else {
                kept.push(event);
                continue;
            };
            // One notice may tell of many recipients.
            if let Entry::Vacant(unread) = messages.entry(message_id) {
                unread.insert(self.known(message_id).await?);
            }
            let known = messages.get_mut(&message_id).and_then(Option::as_mut);
            let in_time =
                |known: &&mut Known| event.at.since(left_at(&known.record)) <= self.0.settings.bounce_lifetime;
            let Some((known, event)) = known.filter(in_time).and_then(|known| {
                let event = known.of_a_recipient(event.clone())?;
                Some((known, event))
            }) else {
                false_reports += 1;
                continue;
            };
            let is_new = seen.insert((message_id, event.recipient.clone(), event.final_recipient.clone()));
            if is_new && known.can_bounce(&event, self.0.settings.bounce_members) {
                known.note(&event);
                kept.push(completed(event, &known.record));
            } else {
                old_news += 1;
            }
        }
        if false_reports > 0 {
            tracing::warn!(false_reports, "bounces that cannot be true have been ignored: late, or of what never was");
        }
        if old_news > 0 {
            tracing::debug!(known = old_news, "bounces came back as mail that were known already");
        }
        Ok(kept)
    }

    async fn known(&self, message_id: MessageId) -> Result<Option<Known>, Unavailable> {
        let Some(record) = self.0.store.sent().get(message_id).await? else { return Ok(None) };
        let members = self.0.store.delivery_log().members(message_id).await?;
        Ok(Some(Known { record, members }))
    }
}

impl Known {
    fn status_of(&self, recipient: &EmailAddress) -> Option<RecipientStatus> {
        self.record.recipients.iter().find(|known| known.email == *recipient).map(|known| known.status)
    }

    /// The event as one of a recipient of the message. A server that was not told whom the sender had named tells the
    /// address that our mail server handed over to it: it is known from the log whose that is, unless it is of several.
    fn of_a_recipient(&self, event: DeliveryEvent) -> Option<DeliveryEvent> {
        if self.status_of(&event.recipient).is_some() {
            return Some(event);
        }
        let mut owners = self.members.iter().filter(|member| member.address == event.recipient);
        let owner = owners.next().filter(|_| owners.next().is_none())?;
        Some(DeliveryEvent { recipient: owner.of.clone(), final_recipient: Some(event.recipient), ..event })
    }

    /// Whether this is news. Who knows how many addresses stand behind a recipient? So `most` of them are believed.
    fn can_bounce(&self, event: &DeliveryEvent, most: usize) -> bool {
        let can_bounce = self
            .status_of(&event.recipient)
            .is_some_and(|status| status.is_open() || matches!(status, RecipientStatus::Sent));
        let is_this =
            |member: &&Member| member.of == event.recipient && Some(&member.address) == event.final_recipient.as_ref();
        let is_news = match (event.scope(), self.members.iter().find(is_this)) {
            (Scope::Recipient, _) => true,
            (Scope::Member, Some(member)) => !member.has_bounced,
            (Scope::Member, None) => self.members.iter().filter(|member| member.has_bounced).count() < most,
        };
        can_bounce && is_news
    }

    /// Takes note of a bounce: what follows is judged as if it stood in the log already.
    fn note(&mut self, event: &DeliveryEvent) {
        if let Some(address) = &event.final_recipient {
            let (of, address) = (event.recipient.clone(), address.clone());
            self.members.retain(|member| member.of != of || member.address != address);
            self.members.push(Member { of, address, has_bounced: true });
        } else if let Some(known) = self.record.recipients.iter_mut().find(|known| known.email == event.recipient) {
            known.status = RecipientStatus::Bounced;
        }
    }
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
