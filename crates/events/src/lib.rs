//! Events: their types, ids, and the JSON body of each type.
//!
//! The code that stores a fact composes the body once, and stores it as text. Each channel sends exactly these bytes:
//! an event is the same in `GET /events`, in the stream and in a webhook.

mod administration;
mod authentication;
mod body;
mod cursor;
mod event_type;
mod facts;
mod gap;
mod id;
mod message;
mod notice;
mod received;
mod rejected;
mod submitted;
mod webhook;

pub use administration::{
    BrokenRecord, alias_created, alias_deleted, alias_updated, app_password_created, app_password_revoked,
    dkim_key_changed, domain_created, domain_event, domain_unverified, domain_updated, token_created, token_event,
    user_created, user_event, user_updated,
};
pub use authentication::{authentication_from_json, authentication_to_json};
pub use body::NewEvent;
pub use cursor::{EventCursor, EventCursorError};
pub use event_type::{EventType, TypePattern, UnknownEventType};
pub use facts::event_facts;
pub use gap::delivery_gap;
pub use id::{EventId, EventIdError, FactNumber};
pub use message::{Attempted, MessageFacts, Origin, accepted, delivery, failed, refused};
pub use notice::{ReturnedText, noticed};
pub use received::{Received, ReceivedMessage, received, received_id};
pub use rejected::rejected;
pub use submitted::submitted;
pub use webhook::{webhook_challenge, webhook_disabled, webhook_test};
