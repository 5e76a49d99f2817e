//! Which webhooks want an event. An event costs nothing for the webhooks that do not want it.

use std::collections::HashMap;

use mailapi_events::EventType;
use mailapi_model::{DomainName, EmailAddress, WebhookId};
use mailapi_store::{SendingWebhook, StoredEvent};

/// The webhooks that want events of a type.
type ByType = HashMap<EventType, Vec<WebhookId>>;

/// The webhooks by the events that they want.
#[derive(Debug, Default)]
pub(super) struct Interests {
    of_all: ByType,
    of_domain: HashMap<DomainName, ByType>,
    of_mailbox: HashMap<EmailAddress, ByType>,
}

impl Interests {
    pub(super) fn add(&mut self, webhook: &SendingWebhook) {
        let by_type = match (&webhook.mailbox, &webhook.domain) {
            // A webhook of a mailbox in another domain wants nothing; its rounds find that.
            (Some(mailbox), _) => self.of_mailbox.entry(mailbox.clone()).or_default(),
            (None, Some(domain)) => self.of_domain.entry(domain.clone()).or_default(),
            (None, None) => &mut self.of_all,
        };
        for event_type in types(webhook) {
            by_type.entry(event_type).or_default().push(webhook.id);
        }
    }

    pub(super) fn remove(&mut self, webhook: &SendingWebhook) {
        match (&webhook.mailbox, &webhook.domain) {
            (Some(mailbox), _) => remove(&mut self.of_mailbox, mailbox, webhook),
            (None, Some(domain)) => remove(&mut self.of_domain, domain, webhook),
            (None, None) => remove_from(&mut self.of_all, webhook),
        }
    }

    /// Returns the webhooks that may want an event. Rights are checked later.
    pub(super) fn of(&self, event: &StoredEvent) -> impl Iterator<Item = WebhookId> {
        let of_domain = event.domain.as_ref().and_then(|domain| self.of_domain.get(domain));
        let of_mailbox = event.mailbox.as_ref().and_then(|mailbox| self.of_mailbox.get(mailbox));
        let indexes = [Some(&self.of_all), of_domain, of_mailbox].into_iter().flatten();
        indexes.filter_map(|by_type| by_type.get(&event.event_type)).flatten().copied()
    }
}

fn remove<K: std::hash::Hash + Eq>(indexes: &mut HashMap<K, ByType>, key: &K, webhook: &SendingWebhook) {
    if let Some(by_type) = indexes.get_mut(key) {
        remove_from(by_type, webhook);
        if by_type.is_empty() {
            indexes.remove(key);
        }
    }
}

fn remove_from(by_type: &mut ByType, webhook: &SendingWebhook) {
    by_type.retain(|_, webhooks| {
        webhooks.retain(|id| *id != webhook.id);
        !webhooks.is_empty()
    });
}

/// Returns the types of events that a webhook wants.
fn types(webhook: &SendingWebhook) -> impl Iterator<Item = EventType> {
    let wants = |event_type: &EventType| webhook.types.iter().any(|pattern| pattern.includes(*event_type));
    EventType::ALL.iter().copied().filter(wants)
}

#[cfg(test)]
mod tests {
    use mailapi_events::{EventCursor, EventId};
    use mailapi_model::Timestamp;

    use super::*;

    fn webhook(id: i64, types: &str, domain: Option<&str>, mailbox: Option<&str>) -> SendingWebhook {
        SendingWebhook {
            id: WebhookId(id),
            revision: 0,
            user: None,
            types: types.split(' ').map(|pattern| pattern.parse().unwrap()).collect(),
            domain: domain.map(|name| name.parse().unwrap()),
            mailbox: mailbox.map(|address| address.parse().unwrap()),
            cursor: EventCursor::default(),
        }
    }

    fn event(event_type: EventType, domain: Option<&str>, mailbox: Option<&str>) -> StoredEvent {
        let at = Timestamp::from_seconds(0);
        StoredEvent {
            number: 1,
            id: EventId::of_fact(at, &[]),
            event_type,
            at,
            domain: domain.map(|name| name.parse().unwrap()),
            mailbox: mailbox.map(|address| address.parse().unwrap()),
            message_id: None,
            subject_at: at,
            body: "{}".into(),
        }
    }

    #[test]
    fn an_event_is_found_by_type_and_by_domain_or_mailbox() {
        let webhooks = [
            webhook(1, "message.delivered message.*", None, None),
            webhook(2, "*", Some("example.org"), None),
            webhook(3, "message.bounced", None, Some("ann@example.org")),
            webhook(4, "message.*", Some("example.org"), Some("bob@example.org")),
        ];
        let mut interests = Interests::default();
        webhooks.iter().for_each(|webhook| interests.add(webhook));
        let found = |interests: &Interests, event_type, domain, mailbox| {
            let mut found: Vec<_> = interests.of(&event(event_type, domain, mailbox)).map(|id| id.0).collect();
            found.sort_unstable();
            found
        };
        let (org, ann, bob) = (Some("example.org"), Some("ann@example.org"), Some("BOB@example.org"));
        for (event_type, domain, mailbox, expected) in [
            (EventType::MessageDelivered, org, ann, vec![1, 2]),
            (EventType::MessageBounced, org, ann, vec![1, 2, 3]),
            (EventType::MessageBounced, org, bob, vec![1, 2, 4]),
            (EventType::MessageBounced, Some("other.example"), None, vec![1]),
            (EventType::DomainDeleted, org, None, vec![2]),
            (EventType::TokenCreated, None, None, vec![]),
        ] {
            assert_eq!(found(&interests, event_type, domain, mailbox), expected, "{event_type} {mailbox:?}");
        }
        interests.remove(&webhooks[1]);
        assert_eq!(found(&interests, EventType::MessageBounced, org, ann), [1, 3]);
        webhooks.iter().for_each(|webhook| interests.remove(webhook));
        let left = interests.of_all.len() + interests.of_domain.len() + interests.of_mailbox.len();
        assert_eq!(left, 0, "nothing is left in memory");
    }
}
