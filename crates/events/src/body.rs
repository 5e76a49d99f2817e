//! The common members of all events.

use mailapi_model::{DomainName, EmailAddress, MessageId, Timestamp};
use serde::Serialize;

use crate::{EventId, EventType};

/// An event to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// The id, which contains the event's time.
    pub id: EventId,
    /// The type.
    pub event_type: EventType,
    /// The domain whose owners may read the event: the sender's, or that of the mailbox that received a message.
    pub domain: Option<DomainName>,
    /// The mailbox whose owner may read the event: that of the token or the login that sent the message, or that received
    /// it.
    pub mailbox: Option<EmailAddress>,
    /// The message, if it was sent through the API.
    pub message_id: Option<MessageId>,
    /// Creation time of the event's subject: for a message, when it was stored. A later owner of the mailbox or the
    /// domain does not see the event.
    pub subject_at: Timestamp,
    /// The JSON text `{"id", "type", "timestamp", "data"}`.
    pub body: String,
}

/// The body of an event, in the order of its members.
#[derive(Serialize)]
struct Body<'a, T> {
    id: &'a str,
    #[serde(rename = "type")]
    event_type: &'static str,
    timestamp: &'a str,
    data: &'a T,
}

/// Returns the JSON text of an event.
pub(crate) fn body(id: EventId, event_type: EventType, data: &impl Serialize) -> String {
    body_named(id, event_type.as_str(), data)
}

/// Returns the JSON text of a message to a webhook that is not in the log.
pub(crate) fn body_named(id: EventId, event_type: &'static str, data: &impl Serialize) -> String {
    let (id_text, timestamp) = (id.to_string(), id.at().to_text());
    let body = Body { id: &id_text, event_type, timestamp: timestamp.as_str(), data };
    serde_json::to_string(&body).expect("every member is text, a number or a list of them")
}
