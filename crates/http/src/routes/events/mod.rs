//! The log of events: lists, the stream, and single events.

mod get;
mod list;
mod shapes;
mod stream;
mod streams;

use mailapi_model::{DomainName, EmailAddress, MessageId};
use mailapi_service::events::{After, EventQuery, EventsError, StoredEvent};

use crate::error::ApiError;
use crate::query::query_parameters;
use crate::router::{Routes, api_routes as routes};
use crate::shape::{EventPosition, EventTypes};

pub(crate) use list::EventLimit;
pub(crate) use shapes::Event;
pub(crate) use streams::EventStreams;

/// Every operation of this area.
pub(crate) fn routes() -> Routes {
    Routes::new().routes(routes!(list::list)).routes(routes!(stream::stream)).routes(routes!(get::get))
}

query_parameters! {
    /// Where to begin, and filters.
    pub(crate) struct EventFilters {
        /// Only events after this position: the `cursor` of an earlier response, `start` for the oldest event that is
        /// kept, or `now` for new events. `now` if absent.
        after: Option<EventPosition>;
        /// Only events of these types, separated by commas. `message.*` means all types of the group.
        types: Option<EventTypes>;
        /// Only events of this domain: for `message.*`, the domain of the sender, or of the mailbox that received it.
        domain: Option<DomainName>;
        /// Only events of this mailbox: for `message.*`, the mailbox whose token sent the message, or that received it.
        mailbox: Option<EmailAddress>;
        /// Only events of this message.
        message_id: Option<MessageId>;
    }
}

impl EventFilters {
    fn into_query(self) -> EventQuery {
        let Self { after, types, domain, mailbox, message_id } = self;
        let (after, types) = (after.unwrap_or(After::Now), types.unwrap_or_default());
        EventQuery { after, types, domain, mailbox, message_id }
    }
}

/// Appends a list of events. Their text is embedded as it is stored.
pub(crate) fn write_events(json: &mut Vec<u8>, events: &[StoredEvent]) {
    json.push(b'[');
    for (place, event) in events.iter().enumerate() {
        if place > 0 {
            json.push(b',');
        }
        json.extend_from_slice(event.body.as_bytes());
    }
    json.push(b']');
}

impl From<EventsError> for ApiError {
    fn from(error: EventsError) -> Self {
        match error {
            EventsError::Denied(denied) => denied.into(),
            EventsError::Unavailable(error) => error.into(),
        }
    }
}
