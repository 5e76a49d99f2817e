//! `GET /events/{id}`.

use mailapi_events::EventId;
use mailapi_store::StoredEvent;

use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Unavailable};

/// The reason why an event is not returned.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// The event does not exist, is no longer kept, or is not visible to the caller.
    #[error("the event does not exist")]
    NotFound,
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(EventError);

impl Service {
    /// Returns one event.
    ///
    /// # Errors
    /// See [`EventError`].
    pub async fn event(&self, caller: &Caller, id: EventId) -> Result<StoredEvent, EventError> {
        let event = self.0.store.events().find(id).await?.ok_or(EventError::NotFound)?;
        let scope = self.event_scope(&caller.grants.may_read_events()).await?;
        if scope.includes(&event) { Ok(event) } else { Err(EventError::NotFound) }
    }
}
