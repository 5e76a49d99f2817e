//! Events about webhooks, and messages to the receiver of a single webhook.

use mailapi_model::{DomainName, WebhookDisabled, WebhookId};
use serde::Serialize;

use crate::body::{body, body_named};
use crate::{EventId, EventType, NewEvent};

/// Returns `webhook.disabled`.
#[must_use]
pub fn webhook_disabled(
    webhook: WebhookId,
    url: &str,
    domain: Option<&DomainName>,
    because: WebhookDisabled,
    id: EventId,
) -> NewEvent {
    #[derive(Serialize)]
    struct Data<'a> {
        webhook_id: i64,
        url: &'a str,
        reason: &'static str,
    }
    let data = Data { webhook_id: webhook.0, url, reason: because.as_str() };
    let event_type = EventType::WebhookDisabled;
    NewEvent {
        id,
        event_type,
        domain: domain.cloned(),
        mailbox: None,
        message_id: None,
        subject_at: id.at(),
        body: body(id, event_type, &data),
    }
}

/// Returns the body of `webhook.test`, which is sent on request. It is not in the log.
#[must_use]
pub fn webhook_test(webhook: WebhookId, id: EventId) -> String {
    #[derive(Serialize)]
    struct Data {
        webhook_id: i64,
    }
    body_named(id, "webhook.test", &Data { webhook_id: webhook.0 })
}

/// Returns the body of `webhook.challenge`, which is not in the log. A user's receiver must echo it to get events.
#[must_use]
pub fn webhook_challenge(challenge: &str, id: EventId) -> String {
    #[derive(Serialize)]
    struct Data<'a> {
        challenge: &'a str,
    }
    body_named(id, "webhook.challenge", &Data { challenge })
}
