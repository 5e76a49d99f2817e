//! `GET /mail/delivery-log` and its sync: the one place where delivery events are appended. Status and statistics
//! are readers of what is written here.

use mailapi_backend::DeliveryFeed;
use mailapi_model::{DeliveryLogEntry, Denied, Listed, Page, Timestamp};
use mailapi_store::DeliveryLogFilter;

use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Unavailable};

/// Why no log is shown.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryLogError {
    /// Only admins see it.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(DeliveryLogError);

/// What one reading of the mail server's reports brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Synced {
    /// Records of the source that were looked at.
    pub lines_read: u64,
    /// Events that were new.
    pub entries_added: u64,
    /// Messages of ours that they were about.
    pub messages_updated: u64,
    /// When the newest known event happened.
    pub last_event_at: Option<Timestamp>,
}

impl Service {
    /// Entries of the delivery log, newest first.
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

    /// Reads everything that the mail server has to report now, what came back as mail included.
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

    /// One step of following the mail server's reports: reads a batch after the stored cursor, and stores its events,
    /// what follows from them, and the new cursor in one transaction. Also says whether there may be more at once.
    ///
    /// # Errors
    /// [`Unavailable`]; the cursor then stays, and the next step reads the same batch again.
    pub async fn follow_once(&self) -> Result<(Synced, bool), Unavailable> {
        self.step(self.0.backend.delivery_feed.as_ref()).await
    }

    /// The same for bounces that come back as mail; nothing where they come with the other reports.
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
        if batch.cursor == before {
            return Ok((Synced { lines_read: batch.lines_read, ..Synced::default() }, false));
        }
        let mut events = self.believable(batch.events).await?;
        let bounces = self.bounces_of_discarded(batch.discarded, &events).await?;
        events.extend(bounces);
        // Two followers (this loop and a sync by hand) may have read the same batch: the cursor is a guard, and the
        // one that comes second stores nothing.
        let appended = match log.append(feed.name(), &events, &before, &batch.cursor).await {
            Err(error) if error.is_guard_failed() => return Ok((Synced::default(), true)),
            appended => appended?,
        };
        feed.forget_until(&batch.cursor).await?;
        let synced = Synced {
            lines_read: batch.lines_read,
            entries_added: appended.entries_added,
            messages_updated: appended.messages_updated,
            last_event_at: None,
        };
        Ok((synced, batch.more))
    }

    /// Called when the mail server's reports are no longer read: their source saves the state that it needs to
    /// continue.
    ///
    /// # Errors
    /// [`Unavailable`] when that failed; no stored data is lost.
    pub async fn stop_following(&self) -> Result<(), Unavailable> {
        Ok(self.0.backend.delivery_feed.stop().await?)
    }

    /// Returns when the mail server may have something new to report.
    pub async fn deliveries_changed(&self) {
        self.0.backend.delivery_feed.changed().await;
    }

    /// Returns when bounces may have come back as mail; never where they come with the other reports.
    pub async fn bounces_changed(&self) {
        match &self.0.backend.bounce_feed {
            Some(feed) => feed.changed().await,
            None => std::future::pending().await,
        }
    }
}

impl Synced {
    fn add(&mut self, step: Self) {
        self.lines_read += step.lines_read;
        self.entries_added += step.entries_added;
        self.messages_updated += step.messages_updated;
    }
}
