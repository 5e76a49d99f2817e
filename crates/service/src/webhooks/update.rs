//! `PUT /webhooks/{id}` and `POST /webhooks/{id}/enable`.

use mailapi_events::TypePattern;
use mailapi_model::{OneLine, Violations};
use mailapi_store::{Webhook, WebhookChange};

use super::connections::Share;
use super::create::check_types;
use super::{WebhookError, WebhookId, receiver};
use crate::caller::audit;
use crate::{Caller, Service};

/// Changes of a webhook; `None` keeps the value.
#[derive(Debug, Clone, Default)]
pub struct UpdateWebhook {
    /// A new URL.
    pub url: Option<String>,
    /// New types.
    pub types: Option<Vec<TypePattern>>,
    /// A new description.
    pub description: Option<String>,
    /// Enables or disables the webhook. An enabled webhook resumes where it stopped. If its author has lost the rights,
    /// the caller becomes the author; a user's webhook stays that user's.
    pub enabled: Option<bool>,
}

impl Service {
    /// Changes a webhook. A new URL is checked as that of a new webhook. Enabling checks one that was not checked yet.
    ///
    /// # Errors
    /// See [`WebhookError`].
    pub async fn update_webhook(
        &self,
        caller: &Caller,
        id: WebhookId,
        change: UpdateWebhook,
    ) -> Result<Webhook, WebhookError> {
        let webhook = self.own_webhook(caller, id).await?;
        check(&change)?;
        let new_url = change.url.as_ref().filter(|url| **url != webhook.url);
        let is_due = new_url.is_some() || (change.enabled == Some(true) && !webhook.confirmed);
        if is_due {
            let url = new_url.unwrap_or(&webhook.url);
            let receiver = receiver(url, webhook.author.user().is_none())?;
            self.check_receiver(&Share::of(&webhook), &receiver, &self.key_of(&webhook)?).await?;
        }
        let UpdateWebhook { url, types, description, enabled } = change;
        let author = if enabled == Some(true) { self.new_author(caller, &webhook).await? } else { None };
        let change = WebhookChange { url, types, description, enabled, confirmed: is_due, author };
        let changed = self.0.store.webhooks().update(id, &change, self.0.clock.now()).await?;
        self.0.webhooks.changed.notify_one();
        audit!(caller, webhook = %id, "webhook changed");
        changed.ok_or(WebhookError::NotFound)
    }

    /// Enables a webhook, which resumes where it stopped.
    ///
    /// # Errors
    /// See [`WebhookError`].
    pub async fn enable_webhook(&self, caller: &Caller, id: WebhookId) -> Result<Webhook, WebhookError> {
        self.update_webhook(caller, id, UpdateWebhook { enabled: Some(true), ..UpdateWebhook::default() }).await
    }
}

fn check(change: &UpdateWebhook) -> Result<(), Violations> {
    let mut violations = Violations::none();
    if let Some(types) = &change.types {
        check_types(types, &mut violations);
    }
    if let Some(description) = &change.description {
        violations.merge(OneLine::parse("description", description));
    }
    if let Some(url) = &change.url {
        violations.merge(receiver(url, true));
    }
    violations.or(Some(()))
}
