//! `GET /mail/delivery-log` and its sync: the one place where delivery events are appended. Status and statistics
//! are readers of what is written here.

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

    /// Reads everything that the mail server has to report now.
    ///
    /// # Errors
    /// See [`DeliveryLogError`].
    pub async fn sync_delivery_log(&self, caller: &Caller) -> Result<Synced, DeliveryLogError> {
        caller.grants.admin()?;
        let mut all = Synced::default();
        loop {
            let (step, more) = self.follow_once().await?;
            all.lines_read += step.lines_read;
            all.entries_added += step.entries_added;
            all.messages_updated += step.messages_updated;
            if !more {
                all.last_event_at = self.0.store.delivery_log().last_event_at().await?;
                return Ok(all);
            }
        }
    }

    /// One step of following the feed: reads a batch after the stored cursor, and stores its events, what follows
    /// from them, and the new cursor in one transaction. Also says whether there may be more at once.
    ///
    /// # Errors
    /// [`Unavailable`]; the cursor then stays, and the next step reads the same batch again.
    pub async fn follow_once(&self) -> Result<(Synced, bool), Unavailable> {
        let (feed, log) = (&self.0.backend.delivery_feed, self.0.store.delivery_log());
        let before = log.cursor(feed.name()).await?.unwrap_or_default();
        let batch = feed.read_after(&before, self.0.settings.feed_batch).await?;
        if batch.cursor == before {
            return Ok((Synced { lines_read: batch.lines_read, ..Synced::default() }, false));
        }
        // Two followers (this loop and a sync by hand) may have read the same batch: the cursor is a guard, and the
        // one that comes second stores nothing.
        let appended = match log.append(feed.name(), &batch.events, &before, &batch.cursor).await {
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

    /// Returns when the mail server may have something new to report.
    pub async fn deliveries_changed(&self) {
        self.0.backend.delivery_feed.changed().await;
    }
}
