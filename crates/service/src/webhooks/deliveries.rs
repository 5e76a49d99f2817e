//! `GET /webhooks/{id}/deliveries`.

use mailapi_model::{Listed, Page};
use mailapi_store::WebhookFailure;

use super::{WebhookError, WebhookId};
use crate::{Caller, Service};

impl Service {
    /// Returns the events that the receiver of a webhook did not get, newest first: those that are tried again, and
    /// those that were given up. Only admins see the receiver's answers.
    ///
    /// # Errors
    /// See [`WebhookError`].
    pub async fn webhook_deliveries(
        &self,
        caller: &Caller,
        id: WebhookId,
        page: Page,
    ) -> Result<Listed<WebhookFailure>, WebhookError> {
        self.own_webhook(caller, id).await?;
        let mut listed = self.0.store.webhooks().failures(id, page).await?;
        if caller.grants.admin().is_err() {
            for last in listed.items.iter_mut().filter_map(|failure| failure.last.as_mut()) {
                (last.error, last.answer) = (None, None);
            }
        }
        Ok(listed)
    }
}
