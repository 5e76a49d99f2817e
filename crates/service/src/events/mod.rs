//! The log of events: lists, streams, single events, and the timeline of a message.

mod event;
mod list;
mod reader;
mod scope;
mod stream;
mod timeline;

pub use event::EventError;
pub use list::{After, AfterError, EventQuery, EventsError};
pub use mailapi_events::{
    EventCursor, EventCursorError, EventId, EventIdError, EventType, TypePattern, UnknownEventType, event_facts,
};
pub use mailapi_store::{EventFilter, EventPage, EventScope, StoredEvent};
pub(crate) use reader::EventReader;
pub use stream::EventStream;
