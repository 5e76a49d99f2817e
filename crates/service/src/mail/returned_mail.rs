//! Plausibility checks on bounces received as mail.
//!
//! Anyone can write a bounce. The backend has checked that it was sent to a return address, which only recipients
//! of the message receive. Here it must name a recipient that is open or was delivered, within the time that servers
//! retry. Each recipient bounces once, and so does each address that a recipient forwards to.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use mailapi_backend::ReturnedNotice;
use mailapi_events::{MessageFacts, Origin, ReturnedText, noticed};
use mailapi_model::{DeliveryEvent, EmailAddress, Evidence, MessageId, RecipientStatus, Scope, Timestamp};
use mailapi_store::{Member, SentRecord};

use crate::{Service, Unavailable};

/// Maximum number of `message.notice` events of a message, beside one for each recipient. Everyone who got the message
/// knows its return address, and can send any number of notices to it.
const MOST_NOTICES: u64 = 20;

/// The stored state of a message.
struct Known {
    record: SentRecord,
    members: Vec<Member>,
}

impl Service {
    /// Removes implausible and repeated events. Completes the others with data of their messages.
    ///
    /// # Errors
    /// [`Unavailable`] if the account database is.
    pub(super) async fn believable(&self, events: Vec<DeliveryEvent>) -> Result<Vec<DeliveryEvent>, Unavailable> {
        let (mut kept, mut seen) = (Vec::with_capacity(events.len()), HashSet::new());
        let (mut messages, mut false_reports, mut old_news) = (HashMap::new(), 0_u64, 0_u64);
        for event in events {
            let (Evidence::ReturnedMail, Some(message_id)) = (event.evidence, event.message_id) else {
                kept.push(event);
                continue;
            };
            // One bounce may report many recipients, so load each message once.
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
            tracing::warn!(false_reports, "ignored bounces for expired or unknown messages");
        }
        if old_news > 0 {
            tracing::debug!(known = old_news, "ignored bounces that were already recorded");
        }
        Ok(kept)
    }

    /// Stores an event for each notice about a known message that names no recipient of it as failed.
    ///
    /// # Errors
    /// [`Unavailable`] if the account database is.
    pub(super) async fn store_notices(&self, notices: &[ReturnedNotice]) -> Result<(), Unavailable> {
        for notice in notices {
            let Some(known) = self.known(notice.message_id).await? else { continue };
            let is_in_time = notice.at.since(left_at(&known.record)) <= self.0.settings.bounce_lifetime;
            if !is_in_time || notice.failed.iter().any(|address| known.has(address)) {
                continue;
            }
            let message = &known.record.message;
            let facts = MessageFacts {
                origin: Origin::Api(message.message_id),
                mailbox: message.mailbox.clone(),
                from: message.from.clone(),
                created_at: message.created_at,
            };
            let returned = ReturnedText { kind: notice.kind, server: notice.server.as_ref(), text: &notice.text };
            let event = noticed(&facts, returned, message.queue_id.as_ref(), notice.at);
            let most = MOST_NOTICES + known.record.recipients.len() as u64;
            self.0.store.events().record_once_below(&event, most).await?;
        }
        Ok(())
    }

    async fn known(&self, message_id: MessageId) -> Result<Option<Known>, Unavailable> {
        let Some(record) = self.0.store.sent().get(message_id).await? else { return Ok(None) };
        let members = self.0.store.delivery_log().members(message_id).await?;
        Ok(Some(Known { record, members }))
    }
}

impl Known {
    /// Whether the message was for an address, or came to it behind a recipient.
    fn has(&self, address: &EmailAddress) -> bool {
        self.status_of(address).is_some() || self.members.iter().any(|member| member.address == *address)
    }

    fn status_of(&self, recipient: &EmailAddress) -> Option<RecipientStatus> {
        self.record.recipients.iter().find(|known| known.email == *recipient).map(|known| known.status)
    }

    /// Assigns the event to a recipient of the message. A server that received no ORCPT reports the rewritten
    /// address, not the original recipient. The log maps it to that recipient, unless several share the address.
    fn of_a_recipient(&self, event: DeliveryEvent) -> Option<DeliveryEvent> {
        if self.status_of(&event.recipient).is_some() {
            return Some(event);
        }
        // Some servers name an original recipient that they were not given, and the right one as the final recipient.
        if let Some(tried) = event.final_recipient.clone().filter(|tried| self.status_of(tried).is_some()) {
            return Some(DeliveryEvent { recipient: tried, final_recipient: None, ..event });
        }
        let owned = |address: &EmailAddress| Some((self.owner_of(address)?, address.clone()));
        let (owner, member) = owned(&event.recipient).or_else(|| owned(event.final_recipient.as_ref()?))?;
        Some(DeliveryEvent { recipient: owner, final_recipient: Some(member), ..event })
    }

    /// Returns the recipient behind which the log has an address, unless several share it.
    fn owner_of(&self, address: &EmailAddress) -> Option<EmailAddress> {
        let mut owners = self.members.iter().filter(|member| member.address == *address);
        owners.next().filter(|_| owners.next().is_none()).map(|owner| owner.of.clone())
    }

    /// Whether the event is new. The number of addresses of a recipient is unknown, so at most `most` of them may
    /// bounce.
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

    /// Records a bounce, so that later events are judged as if it were in the log already.
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

/// The submission time of the message.
fn left_at(record: &SentRecord) -> Timestamp {
    record.message.submitted_at.unwrap_or(record.message.created_at)
}

/// Adds the queue id, the sender and the delay, which a bounce does not contain.
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
