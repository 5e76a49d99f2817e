//! `GET /events`: events after a cursor, at once or as soon as there are some.

use std::str::FromStr;
use std::time::Duration;

use mailapi_events::{EventCursor, TypePattern};
use mailapi_model::{Denied, DomainName, EmailAddress, MessageId};
use mailapi_store::{EventFilter, EventPage};
use tokio::time::{Instant, timeout_at};

use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Unavailable};

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum After {
    /// After the newest event.
    #[default]
    Now,
    /// At the oldest event that is kept.
    Start,
    /// After this position.
    Cursor(EventCursor),
}

/// The text is not a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be start, now, or a cursor from an earlier response")]
pub struct AfterError;

impl FromStr for After {
    type Err = AfterError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "start" => Ok(Self::Start),
            "now" => Ok(Self::Now),
            cursor => cursor.parse().map(Self::Cursor).map_err(|_| AfterError),
        }
    }
}

/// Which events to list; `None` and an empty list mean no condition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventQuery {
    /// Where to begin.
    pub after: After,
    /// Only events of these types.
    pub types: Vec<TypePattern>,
    /// Only events of this domain.
    pub domain: Option<DomainName>,
    /// Only events of this mailbox.
    pub mailbox: Option<EmailAddress>,
    /// Only events of this message.
    pub message_id: Option<MessageId>,
}

/// The reason why no events are listed.
#[derive(Debug, thiserror::Error)]
pub enum EventsError {
    /// The caller may not read the events of this domain or this mailbox.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(EventsError);

impl Service {
    /// Returns at most `limit` events after a position that the caller may see, oldest first. If there are none, waits
    /// up to `wait` for one.
    ///
    /// # Errors
    /// See [`EventsError`].
    pub async fn list_events(
        &self,
        caller: &Caller,
        query: &EventQuery,
        limit: usize,
        wait: Duration,
    ) -> Result<EventPage, EventsError> {
        let filter = self.event_filter(caller, query).await?;
        let mut cursor = self.event_cursor(query.after).await?;
        let end = Instant::now() + wait;
        // Subscribe before the first read, so that no event in between is missed.
        let mut newest = (!wait.is_zero()).then(|| self.0.events.subscribe());
        // From the database: a caller must find the events of its own earlier requests.
        let mut page = self.0.store.events().after(cursor, &filter, limit).await?;
        loop {
            cursor = page.cursor;
            let Some(newest) = newest.as_mut().filter(|_| !page.is_answer()) else { return Ok(page) };
            let later = newest.wait_for(|newest| *newest > cursor);
            if !matches!(timeout_at(end, later).await, Ok(Ok(_))) {
                return Ok(page);
            }
            page = self.events_after(cursor, &filter, limit).await?;
        }
    }

    /// Returns the filter of a query, limited to what the caller may see.
    pub(super) async fn event_filter(&self, caller: &Caller, query: &EventQuery) -> Result<EventFilter, EventsError> {
        let rights = caller.grants.may_read_events();
        let may = query.domain.as_ref().is_none_or(|domain| rights.covers_domain(domain))
            && query.mailbox.as_ref().is_none_or(|mailbox| rights.covers_mailbox(mailbox));
        if !may {
            return Err(Denied.into());
        }
        let EventQuery { after: _, types, domain, mailbox, message_id } = query.clone();
        Ok(EventFilter { scope: self.event_scope(&rights).await?, types, domain, mailbox, message_id })
    }

    /// Returns the position where a query begins.
    pub(super) async fn event_cursor(&self, after: After) -> Result<EventCursor, Unavailable> {
        Ok(match after {
            After::Now => self.0.store.events().newest().await?,
            After::Start => self.0.store.events().oldest().await?,
            After::Cursor(cursor) => cursor,
        })
    }
}
