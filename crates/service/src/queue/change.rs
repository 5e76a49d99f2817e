//! `POST /queue/{queue_id}/retry`, `/hold`, `/release` and `/cancel`.

use mailapi_backend::QueueChange;
use mailapi_model::QueueId;

use super::QueueError;
use crate::caller::audit;
use crate::{Caller, Service};

impl Service {
    /// Changes a message in the mail server's queue. The bounces of a cancelled message arrive through the delivery
    /// feed.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn change_queued_message(
        &self,
        caller: &Caller,
        id: &QueueId,
        change: QueueChange,
    ) -> Result<(), QueueError> {
        caller.grants.admin()?;
        self.0.backend.queue.change(id, change).await?;
        match change {
            QueueChange::Retry => audit!(caller, queue_id = %id, "queued message retried"),
            QueueChange::Hold => audit!(caller, queue_id = %id, "queued message put on hold"),
            QueueChange::Release => audit!(caller, queue_id = %id, "queued message released"),
            QueueChange::Cancel => audit!(caller, queue_id = %id, "queued message cancelled"),
        }
        Ok(())
    }
}
