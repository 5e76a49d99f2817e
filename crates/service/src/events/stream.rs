//! `GET /events/stream`: events as they are stored.

use mailapi_events::EventCursor;
use mailapi_store::{EventFilter, EventPage, StoredEvent};
use tokio::sync::watch;

use super::{EventQuery, EventsError};
use crate::{Caller, Service, Unavailable};

/// Number of events per read.
const AT_ONCE: usize = 100;

/// The endless sequence of events after a position. It buffers nothing: a slow reader costs no memory.
pub struct EventStream {
    service: Service,
    query: EventQuery,
    filter: EventFilter,
    cursor: EventCursor,
    newest: watch::Receiver<EventCursor>,
}

impl Service {
    /// Returns the events that the caller may see, from the query's position on.
    ///
    /// # Errors
    /// See [`EventsError`].
    pub async fn event_stream(&self, caller: &Caller, query: EventQuery) -> Result<EventStream, EventsError> {
        let filter = self.event_filter(caller, &query).await?;
        // Subscribe before the first read, so that no event in between is missed.
        let newest = self.0.events.subscribe();
        let cursor = self.event_cursor(query.after).await?;
        Ok(EventStream { service: self.clone(), query, filter, cursor, newest })
    }
}

impl EventStream {
    /// Waits for the next events; the page has some, or is `truncated`. Cancel-safe: a dropped call loses no event.
    ///
    /// # Errors
    /// [`Unavailable`] when the database is; a later call continues at the same position.
    pub async fn next(&mut self) -> Result<EventPage, Unavailable> {
        loop {
            let page = self.service.events_after(self.cursor, &self.filter, AT_ONCE).await?;
            self.cursor = page.cursor;
            if !page.events.is_empty() || page.truncated {
                return Ok(page);
            }
            if page.has_more {
                // A long part of the log without matching events must not delay other tasks.
                tokio::task::yield_now().await;
                continue;
            }
            let cursor = self.cursor;
            if self.newest.wait_for(|newest| *newest > cursor).await.is_err() {
                // The sender lives as long as the service.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns whether the stream's filter includes an event that [`EventStream::next`] returned before
    /// [`EventStream::renew`].
    #[must_use]
    pub fn includes(&self, event: &StoredEvent) -> bool {
        self.filter.includes(event)
    }

    /// The position after the last event that was returned.
    #[must_use]
    pub const fn cursor(&self) -> EventCursor {
        self.cursor
    }

    /// Returns the number of events between this stream's position and the newest one, read or not.
    #[must_use]
    pub fn behind(&self) -> u64 {
        self.newest.borrow().number().saturating_sub(self.cursor.number())
    }

    /// Limits the stream to what the caller may see now.
    ///
    /// # Errors
    /// See [`EventsError`].
    pub async fn renew(&mut self, caller: &Caller) -> Result<(), EventsError> {
        self.filter = self.service.event_filter(caller, &self.query).await?;
        Ok(())
    }
}
