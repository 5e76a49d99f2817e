//! Reads new events once for all streams, long polls and webhooks of this process.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mailapi_events::EventCursor;
use mailapi_store::{EventFilter, EventPage, EventScope, StoredEvent};
use tokio::sync::{Notify, watch};

use crate::{Service, Unavailable};

/// Maximum number of the newest events in memory.
const MOST_EVENTS: usize = 4096;
/// Maximum length of their bodies in bytes.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// Maximum number of events per read.
const AT_ONCE: usize = 1000;

/// The newest events, and a signal for new ones.
pub(crate) struct EventReader {
    newest: watch::Sender<EventCursor>,
    written: Notify,
    recent: Mutex<Recent>,
    /// The number of foreign changes that were seen.
    foreign: AtomicU64,
}

/// A part of the log without gaps, up to the newest event that was read.
#[derive(Default)]
struct Recent {
    events: VecDeque<StoredEvent>,
    bytes: usize,
    /// The position before the first of the events.
    from: EventCursor,
    /// The position after the last of the events.
    until: EventCursor,
}

impl Default for EventReader {
    fn default() -> Self {
        Self {
            newest: watch::Sender::default(),
            written: Notify::new(),
            recent: Mutex::default(),
            foreign: AtomicU64::new(0),
        }
    }
}

impl EventReader {
    /// Notes that this process has stored an event.
    pub(crate) fn wake(&self) {
        self.written.notify_one();
    }

    /// Returns the position after the newest event, which grows while there are subscribers. The reader looks for
    /// events at once.
    pub(crate) fn subscribe(&self) -> watch::Receiver<EventCursor> {
        let newest = self.newest.subscribe();
        self.wake();
        newest
    }

    fn is_watched(&self) -> bool {
        self.newest.receiver_count() > 0
    }

    fn recent<T>(&self, work: impl FnOnce(&mut Recent) -> T) -> T {
        work(&mut self.recent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Recent {
    /// Discards all events, and starts at this position.
    fn restart(&mut self, at: EventCursor) {
        *self = Self { from: at, until: at, ..Self::default() };
    }

    fn add(&mut self, page: EventPage) {
        for event in page.events {
            self.bytes += event.body.len();
            self.events.push_back(event);
        }
        self.until = page.cursor;
        while self.events.len() > MOST_EVENTS || self.bytes > MOST_BYTES {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.body.len();
            self.from = oldest.cursor();
        }
    }

    /// Shows the events after a position to `visit`, and returns the position after them; `None` if an event after it
    /// is not in memory.
    fn visit(&self, cursor: EventCursor, visit: impl FnMut(&StoredEvent)) -> Option<EventCursor> {
        self.events_after(cursor)?.for_each(visit);
        Some(self.until)
    }

    /// Returns the events after a position; `None` if an event after it is not in memory.
    fn after(&self, cursor: EventCursor, filter: &EventFilter, limit: usize) -> Option<EventPage> {
        let later = self.events_after(cursor)?;
        let mut page = EventPage { events: Vec::new(), cursor: self.until, has_more: false, truncated: false };
        for event in later.filter(|event| filter.includes(event)) {
            if page.events.len() == limit {
                page.has_more = true;
                page.cursor = page.events.last().map_or(cursor, StoredEvent::cursor);
                break;
            }
            page.events.push(event.clone());
        }
        Some(page)
    }

    fn events_after(&self, cursor: EventCursor) -> Option<impl Iterator<Item = &StoredEvent>> {
        if cursor < self.from || cursor > self.until {
            return None;
        }
        let passed = usize::try_from(cursor.number() - self.from.number()).ok()?.min(self.events.len());
        let at = passed.checked_sub(1).map_or(self.from, |last| self.events[last].cursor());
        // The database decides about a cursor whose event is not in memory, because it may be of another log.
        if cursor.names_event() && !(at.names_event() && cursor.agrees_with(at)) {
            return None;
        }
        Some(self.events.range(passed..))
    }
}

impl Service {
    /// Makes new events visible, and reads them once for all subscribers; returns whether there may be more. `serve`
    /// loops over it, paced by [`Service::events_written`].
    ///
    /// # Errors
    /// [`Unavailable`] if the account database is; the next step continues at the same position.
    pub async fn read_events_once(&self) -> Result<bool, Unavailable> {
        let (log, reader) = (self.0.store.events(), &self.0.events);
        log.number_new().await?;
        if !reader.is_watched() {
            // Without subscribers, events only need numbers.
            return Ok(false);
        }
        let until = reader.recent(|recent| recent.until);
        let page = log.after(until, &EventFilter::of(EventScope::All), AT_ONCE).await?;
        let mut more = page.has_more;
        let is_far_behind = page.truncated || (page.has_more && self.is_far(page.cursor).await?);
        if is_far_behind {
            // Subscribers that need older events read them from the database.
            let newest = log.newest().await?;
            reader.recent(|recent| recent.restart(newest));
            more = true;
        } else {
            reader.recent(|recent| recent.add(page));
        }
        let until = reader.recent(|recent| recent.until);
        reader.newest.send_if_modified(|newest| std::mem::replace(newest, until) != until);
        Ok(more)
    }

    async fn is_far(&self, cursor: EventCursor) -> Result<bool, Unavailable> {
        let newest = self.0.store.events().newest().await?;
        Ok(newest.number().saturating_sub(cursor.number()) > MOST_EVENTS as u64)
    }

    /// Waits until this process, another process or another node may have stored events.
    pub async fn events_written(&self) {
        /// Other nodes send a notification, except one that stopped before it, and the command line.
        const POLL: Duration = Duration::from_secs(1);
        /// Events that are stored within this time are read together.
        const GATHER: Duration = Duration::from_millis(10);
        let foreign = self.0.store.foreign_events();
        let seen = self.0.events.foreign.load(Ordering::Relaxed);
        let poll = async {
            if self.0.store.is_shared() { tokio::time::sleep(POLL).await } else { std::future::pending().await }
        };
        tokio::select! {
            () = self.0.events.written.notified() => {}
            count = foreign.after(seen) => self.0.events.foreign.store(count, Ordering::Relaxed),
            () = poll => {}
        }
        tokio::time::sleep(GATHER).await;
    }

    /// Shows events after a position to `visit`, oldest first, from memory if possible. Returns the position after
    /// them, and whether there are more.
    pub(crate) async fn visit_events(
        &self,
        cursor: EventCursor,
        mut visit: impl FnMut(&StoredEvent),
    ) -> Result<(EventCursor, bool), Unavailable> {
        if let Some(until) = self.0.events.recent(|recent| recent.visit(cursor, &mut visit)) {
            return Ok((until, false));
        }
        let page = self.0.store.events().after(cursor, &EventFilter::of(EventScope::All), AT_ONCE).await?;
        page.events.iter().for_each(visit);
        Ok((page.cursor, page.has_more))
    }

    /// Returns events after a position, from memory if possible. The newest ones may be missing; see
    /// [`EventReader::subscribe`].
    pub(crate) async fn events_after(
        &self,
        cursor: EventCursor,
        filter: &EventFilter,
        limit: usize,
    ) -> Result<EventPage, Unavailable> {
        if let Some(page) = self.0.events.recent(|recent| recent.after(cursor, filter, limit)) {
            return Ok(page);
        }
        Ok(self.0.store.events().after(cursor, filter, limit).await?)
    }
}
