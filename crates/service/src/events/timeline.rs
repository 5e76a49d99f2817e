//! `GET /mail/{message_id}/timeline`.

use mailapi_events::EventCursor;
use mailapi_model::MessageId;
use mailapi_store::{EventFilter, EventPage};

use crate::mail::StatusError;
use crate::{Caller, Service};

impl Service {
    /// Returns at most `limit` events of a message after a position, in the order of the log. They are visible to
    /// callers that may see the message's status, and to those that may read the events of its domain.
    ///
    /// # Errors
    /// [`StatusError::NotFound`] when the message does not exist or is not visible to the caller.
    pub async fn timeline(
        &self,
        caller: &Caller,
        message_id: MessageId,
        after: EventCursor,
        limit: usize,
    ) -> Result<EventPage, StatusError> {
        let scope = self.event_scope(&caller.grants.may_read_events()).await?;
        let filter = EventFilter { message_id: Some(message_id), ..EventFilter::of(scope) };
        let page = self.0.store.events().kept_after(after, &filter, limit).await?;
        if page.events.is_empty() {
            // A message without events is visible to those who may see its status.
            self.status(caller, message_id).await?;
        }
        Ok(page)
    }
}
