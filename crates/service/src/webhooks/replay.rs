//! `POST /webhooks/{id}/replay`.

use mailapi_events::EventCursor;
use mailapi_model::{ReplayedEvents, Violations};

use super::{WebhookError, WebhookId};
use crate::caller::audit;
use crate::{Caller, Service};

/// Which events to send again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replay {
    /// Events after this position.
    pub after: EventCursor,
    /// Events up to this position; the newest one by default. Only for failed events.
    pub before: Option<EventCursor>,
    /// Whether to send all events again, or only those that the receiver did not get.
    pub only: ReplayedEvents,
}

impl Service {
    /// Sends events again, with the same ids. Returns the number of failed events, or `None` for all events.
    ///
    /// # Errors
    /// See [`WebhookError`].
    pub async fn replay_webhook(
        &self,
        caller: &Caller,
        id: WebhookId,
        replay: Replay,
    ) -> Result<Option<u64>, WebhookError> {
        let webhook = self.own_webhook(caller, id).await?;
        self.check_positions(&replay).await?;
        let (webhooks, now) = (self.0.store.webhooks(), self.0.clock.now());
        let count = match (replay.only, replay.before) {
            (ReplayedEvents::All, Some(_)) => {
                return Err(Violations::of("before", "must not be given with `only: all`").into());
            }
            (ReplayedEvents::All, None) => {
                webhooks.move_back(id, replay.after).await?;
                None
            }
            (ReplayedEvents::Failed, before) => {
                let before = before.unwrap_or(webhook.cursor);
                Some(webhooks.retry_failures(id, replay.after, before, now).await?)
            }
        };
        self.0.webhooks.changed.notify_one();
        audit!(caller, webhook = %id, "webhook events sent again");
        Ok(count)
    }

    /// Refuses cursors of another log: the events after them are unknown, so some would silently be left out.
    async fn check_positions(&self, replay: &Replay) -> Result<(), WebhookError> {
        let mut violations = Violations::none();
        for (field, cursor) in [("after", Some(replay.after)), ("before", replay.before)] {
            if let Some(cursor) = cursor
                && !self.0.store.events().contains(cursor).await?
            {
                violations.add(field, "must be a cursor of this log; `0` is its beginning");
            }
        }
        Ok(violations.or(Some(()))?)
    }
}
