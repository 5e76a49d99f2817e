//! `DELETE /webhooks/{id}`.

use super::{WebhookError, WebhookId};
use crate::caller::audit;
use crate::{Caller, Service};

impl Service {
    /// Deletes a webhook. An attempt in progress may still reach the receiver.
    ///
    /// # Errors
    /// See [`WebhookError`].
    pub async fn delete_webhook(&self, caller: &Caller, id: WebhookId) -> Result<(), WebhookError> {
        self.own_webhook(caller, id).await?;
        self.0.store.webhooks().delete(id).await?;
        self.0.webhooks.changed.notify_one();
        audit!(caller, webhook = %id, "webhook deleted");
        Ok(())
    }
}
