//! `GET /queue`.

use mailapi_backend::{QueueEntry, QueueFilter};
use mailapi_model::{Listed, Page};

use super::QueueError;
use crate::{Caller, Service};

impl Service {
    /// Returns messages in the mail server's queue, those that wait longest first.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn list_queue(
        &self,
        caller: &Caller,
        filter: &QueueFilter,
        page: Page,
    ) -> Result<Listed<QueueEntry>, QueueError> {
        caller.grants.admin()?;
        Ok(self.0.backend.queue.list(filter, page).await?)
    }
}
