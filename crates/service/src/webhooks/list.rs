//! `GET /webhooks`.

use mailapi_model::{Listed, Page};
use mailapi_store::Webhook;

use super::WebhookError;
use crate::{Caller, Service};

impl Service {
    /// Returns webhooks, newest first: all for an admin, else those that the caller's mailbox registered.
    ///
    /// # Errors
    /// See [`WebhookError`].
    pub async fn list_webhooks(&self, caller: &Caller, page: Page) -> Result<Listed<Webhook>, WebhookError> {
        let owner = if caller.grants.admin().is_ok() { None } else { caller.grants.mailbox() };
        Ok(self.0.store.webhooks().list(owner, page).await?)
    }
}
