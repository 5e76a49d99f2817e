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
}
