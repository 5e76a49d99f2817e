//! `GET /queue/{queue_id}`.

use mailapi_backend::QueueEntry;
use mailapi_model::QueueId;

use super::QueueError;
use crate::{Caller, Service};

impl Service {
    /// Returns a message in the mail server's queue.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn queued_message(&self, caller: &Caller, id: &QueueId) -> Result<QueueEntry, QueueError> {
        caller.grants.admin()?;
        Ok(self.0.backend.queue.get(id).await?)
    }
}
