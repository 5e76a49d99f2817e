//! `GET /webhooks/{id}`.

use mailapi_store::Webhook;

use super::{WebhookError, WebhookId};
use crate::{Caller, Service};

impl Service {
    /// Returns a webhook.
    ///
    /// # Errors
    /// See [`WebhookError`].
    pub async fn get_webhook(&self, caller: &Caller, id: WebhookId) -> Result<Webhook, WebhookError> {
        self.own_webhook(caller, id).await
    }
}
