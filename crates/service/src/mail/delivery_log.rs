//! `GET /mail/delivery-log` and its sync. Delivery events are appended only here. Their statuses and their entries in
//! the log of events are stored in the same transaction.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mailapi_backend::{DeliveryFeed, LostPart};
use mailapi_events::{EventId, NewEvent, delivery_gap};
use mailapi_model::{DeliveryLogEntry, Denied, Listed, Page, Timestamp};
use mailapi_store::{DeliveryLogFilter, Reports};

use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Unavailable};

/// The reason why the delivery log is not available.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryLogError {
    /// The caller is not an admin.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(DeliveryLogError);

/// The result of reading the mail server's reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Synced {
    /// Number of records of the source.
    pub lines_read: u64,
    /// Number of new events.
    pub entries_added: u64,
    /// Number of tracked messages with new events.
    pub messages_updated: u64,
    /// The time of the newest event.
    pub last_event_at: Option<Timestamp>,
}

impl Service {
    /// Returns entries of the delivery log, newest first.
    ///
    /// # Errors
    /// See [`DeliveryLogError`].
    pub async fn delivery_log(
        &self,
        caller: &Caller,
        filter: &DeliveryLogFilter,
        page: Page,
    ) -> Result<Listed<DeliveryLogEntry>, DeliveryLogError> {
        caller.grants.admin()?;
        Ok(self.0.store.delivery_log().list(filter, page).await?)
    }

    /// Reads all pending reports of the mail server, including bounces received as mail.
    ///
    /// # Errors
    /// See [`DeliveryLogError`].
    pub async fn sync_delivery_log(&self, caller: &Caller) -> Result<Synced, DeliveryLogError> {
        caller.grants.admin()?;
        let mut all = Synced::default();
        loop {
            let (step, more) = self.follow_once().await?;
            all.add(step);
            if !more {
                break;
            }
        }
        loop {
            let (step, more) = self.collect_bounces_once().await?;
            all.add(step);
            if !more {
                break;
            }
        }
        all.last_event_at = self.0.store.delivery_log().last_event_at().await?;
        Ok(all)
    }

    /// Reads one batch of the mail server's reports after the stored cursor. Stores its events, their effects and
    /// the new cursor in one transaction. Also returns whether more reports may be available.
    ///
    /// # Errors
    /// [`Unavailable`]; the cursor stays, and the next step reads the same batch again.
    pub async fn follow_once(&self) -> Result<(Synced, bool), Unavailable> {
        let _following = self.0.following.lock().await;
        self.step(self.0.backend.delivery_feed.as_ref()).await
    }

    /// Reads one batch of bounces received as mail; does nothing if they are part of the other reports.
    ///
    /// # Errors
    /// As [`Service::follow_once`].
    pub async fn collect_bounces_once(&self) -> Result<(Synced, bool), Unavailable> {
        match &self.0.backend.bounce_feed {
            Some(feed) => self.step(feed.as_ref()).await,
            None => Ok((Synced::default(), false)),
        }
    }

    async fn step(&self, feed: &dyn DeliveryFeed) -> Result<(Synced, bool), Unavailable> {
        let log = self.0.store.delivery_log();
        let before = log.cursor(feed.name()).await?.unwrap_or_default();
        let batch = feed.read_after(&before, self.0.settings.feed_batch).await?;
        self.store_losses(feed).await?;
        if batch.cursor == before {
            // The built-in server may have stored an event without a report.
            self.0.events.wake();
            return Ok((Synced { lines_read: batch.lines_read, ..Synced::default() }, false));
        }
        // Before the cursor: a repeated batch has the same notices, and each is stored once.
        self.store_notices(&batch.notices).await?;
        let mut events = self.believable(batch.events).await?;
        let bounces = self.bounces_of_discarded(batch.discarded, &events).await?;
        events.extend(bounces);
        // The background task and a manual sync may have read the same batch. The cursor guards the append: the
        // second one stores nothing.
        let reports = Reports { deliveries: &events, received: &batch.received, submitted: &batch.submitted };
        let appended = log.append_reports(feed.name(), reports, &before, &batch.cursor).await;
        let appended = match appended {
            Err(error) if error.is_guard_failed() => return Ok((Synced::default(), true)),
            appended => appended?,
        };
        self.0.events.wake();
        if !batch.received.is_empty() {
            self.0.mail_received.notify_one();
        }
        // Only after the commit: until then a crash makes the next start read the batch again.
        feed.forget_until(&batch.cursor).await?;
        self.count_reports(&events, &appended.changes);
        let synced = Synced {
            lines_read: batch.lines_read,
            entries_added: appended.entries_added,
            messages_updated: appended.messages_updated,
            last_event_at: None,
        };
        Ok((synced, batch.more))
    }

    /// Stores an event for each part of the feed that was lost. After a start, those that are stored are seen again.
    async fn store_losses(&self, feed: &dyn DeliveryFeed) -> Result<(), Unavailable> {
        let oldest = self.0.clock.now().minus(self.0.settings.event_retention);
        let lost = feed.lost_parts().await;
        // By identity: a clock that was set back makes a new loss look old.
        let of_part = |part: &LostPart| delivery_gap(feed.name(), part.at, part.from, part.to, part.reason);
        let events: Vec<NewEvent> = lost.iter().filter(|part| part.at > oldest).map(of_part).collect();
        for event in &events {
            if self.0.losses_stored.has(feed.name(), event.id) {
                continue;
            }
            self.0.store.events().record_once(event).await?;
            self.0.events.wake();
        }
        self.0.losses_stored.replace(feed.name(), events.iter().map(|event| event.id));
        Ok(())
    }

    /// Ends reading of the mail server's reports; their source saves the state that it needs to continue.
    ///
    /// # Errors
    /// [`Unavailable`] if that failed; no stored data is lost.
    pub async fn stop_following(&self) -> Result<(), Unavailable> {
        Ok(self.0.backend.delivery_feed.stop().await?)
    }

    /// Waits until the mail server may have new reports.
    pub async fn deliveries_changed(&self) {
        self.0.backend.delivery_feed.changed().await;
    }

    /// Waits until bounces may have arrived as mail; forever if they are part of the other reports.
    pub async fn bounces_changed(&self) {
        match &self.0.backend.bounce_feed {
            Some(feed) => feed.changed().await,
            None => std::future::pending().await,
        }
    }
}

/// The events of lost reports that are stored, by feed. A feed remembers a limited number of losses.
#[derive(Default)]
pub(crate) struct LossesStored(Mutex<HashMap<String, HashSet<EventId>>>);

impl LossesStored {
    fn has(&self, feed: &str, id: EventId) -> bool {
        self.stored().get(feed).is_some_and(|stored| stored.contains(&id))
    }

    fn replace(&self, feed: &str, ids: impl Iterator<Item = EventId>) {
        self.stored().insert(feed.to_owned(), ids.collect());
    }

    fn stored(&self) -> MutexGuard<'_, HashMap<String, HashSet<EventId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Synced {
    fn add(&mut self, step: Self) {
        self.lines_read += step.lines_read;
        self.entries_added += step.entries_added;
        self.messages_updated += step.messages_updated;
    }
}
