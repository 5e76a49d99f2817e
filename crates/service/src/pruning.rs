//! Deletes rows that have expired, in small steps: there is one writer, and everyone else waits for it.

use std::time::{Duration, Instant};

use crate::{Service, Unavailable};

/// Maximum number of rows that one step deletes. They are spread over the table and its indexes, so a step writes up to
/// a megabyte.
const AT_ONCE: u64 = 100;

/// Length of the pause after each step, as a multiple of the step: others have eight ninths of the writer's time.
const REST: u32 = 8;

/// The longest pause. A step that takes longer waited for others.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Rows that expire, or that are above a maximum number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiringRows {
    /// Sessions that have expired, which end.
    Sessions,
    /// Sessions that ended a while ago, which are deleted.
    EndedSessions,
    /// Idempotency keys.
    Requests,
    /// Events.
    Events,
    /// Events that webhooks did not deliver.
    WebhookFailures,
    /// Senders in the greylist.
    Greylist,
}

impl ExpiringRows {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Sessions, Self::EndedSessions, Self::Requests, Self::Events, Self::WebhookFailures, Self::Greylist];
}

impl Service {
    /// Deletes expired data: events, idempotency keys, sessions that ended a while ago, the greylist, closed accounts, and
    /// domains that were not approved in time. Returns the number of rows.
    ///
    /// # Errors
    /// [`Unavailable`] if the account database is.
    pub async fn prune_once(&self) -> Result<u64, Unavailable> {
        self.check_greylist().await?;
        let mut deleted = 0;
        for rows in ExpiringRows::ALL {
            let count = self.prune_in_steps(rows).await?;
            deleted += if rows == ExpiringRows::Sessions { 0 } else { count };
        }
        // Last, since these need the mail server too.
        Ok(deleted + self.remove_closed_accounts().await? + self.expire_pending_domains().await?)
    }

    async fn prune_in_steps(&self, rows: ExpiringRows) -> Result<u64, Unavailable> {
        let mut deleted = 0;
        loop {
            let began = Instant::now();
            let step = self.prune_step(rows).await?;
            deleted += step;
            if step < AT_ONCE {
                return Ok(deleted);
            }
            tokio::time::sleep((began.elapsed() * REST).min(LONGEST_REST)).await;
        }
    }

    /// Deletes some expired rows in one short transaction for each kind. Returns their number; zero means that none is
    /// left.
    ///
    /// # Errors
    /// [`Unavailable`] if the account database is.
    pub async fn prune_step(&self, rows: ExpiringRows) -> Result<u64, Unavailable> {
        let (now, store, settings) = (self.0.clock.now(), &self.0.store, &self.0.settings);
        let oldest_event = now.minus(settings.event_retention);
        Ok(match rows {
            ExpiringRows::Sessions => {
                let ended = store.tokens().end_sessions_until(now, AT_ONCE).await?;
                if ended > 0 {
                    self.changed();
                }
                ended
            }
            ExpiringRows::EndedSessions => {
                store.tokens().forget_sessions(now.minus(settings.ended_sessions_kept), AT_ONCE).await?
            }
            ExpiringRows::Requests => store.sent().forget_requests(now, AT_ONCE).await?,
            ExpiringRows::Events => store.events().prune(oldest_event, now, AT_ONCE).await?,
            ExpiringRows::WebhookFailures => store.webhooks().forget_failures(oldest_event, AT_ONCE).await?,
            ExpiringRows::Greylist => self.prune_greylist(now, AT_ONCE).await?,
        })
    }
}
