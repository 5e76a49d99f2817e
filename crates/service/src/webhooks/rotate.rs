//! `POST /webhooks/{id}/rotate`.

use std::time::Duration;

use mailapi_model::Secret;
use mailapi_store::Webhook;
use mailapi_webhooks::SigningKey;

use super::{WebhookError, WebhookId};
use crate::caller::audit;
use crate::{Caller, Service};

/// The time in which messages have the signatures of both keys, so that receivers can replace theirs.
const OVERLAP: Duration = Duration::from_secs(24 * 60 * 60);

impl Service {
    /// Replaces the key of a webhook. For a day, messages have the signatures of both keys. The secret of `v1` is
    /// returned only here.
    ///
    /// # Errors
    /// See [`WebhookError`].
    pub async fn rotate_webhook(
        &self,
        caller: &Caller,
        id: WebhookId,
    ) -> Result<(Webhook, Option<Secret<String>>), WebhookError> {
        let webhook = self.own_webhook(caller, id).await?;
        let key = SigningKey::generate(webhook.signing, self.0.entropy.as_ref());
        let now = self.0.clock.now();
        let rotated = self.0.store.webhooks().rotate(id, key.bytes(), now.plus(OVERLAP), now).await?;
        audit!(caller, webhook = %id, "webhook key rotated");
        Ok((rotated.ok_or(WebhookError::NotFound)?, key.secret()))
    }
}
