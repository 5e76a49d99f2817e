//! Events about lost reports.

use mailapi_model::Timestamp;
use serde::Serialize;

use crate::body::body;
use crate::{EventId, EventType, NewEvent};

/// Returns `delivery.gap`: reports of the feed between two times were lost. `at` is when the loss was noticed, and
/// `reason` is one word. The same loss always has the same id.
#[must_use]
pub fn delivery_gap(feed: &str, at: Timestamp, from: Option<Timestamp>, to: Timestamp, reason: &str) -> NewEvent {
    #[derive(Serialize)]
    struct Data<'a> {
        feed: &'a str,
        from: Option<String>,
        to: String,
        reason: &'a str,
    }
    let event_type = EventType::DeliveryGap;
    let millis = from.map_or(0, Timestamp::as_millis).to_be_bytes();
    let id = EventId::of_fact(at, &[event_type.as_str().as_bytes(), feed.as_bytes(), reason.as_bytes(), &millis]);
    let data = Data { feed, from: from.map(|from| from.to_string()), to: to.to_string(), reason };
    NewEvent {
        id,
        event_type,
        domain: None,
        mailbox: None,
        message_id: None,
        subject_at: at,
        body: body(id, event_type, &data),
    }
}
