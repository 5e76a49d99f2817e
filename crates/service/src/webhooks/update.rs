//! `PUT /webhooks/{id}` and `POST /webhooks/{id}/enable`.

use mailapi_events::TypePattern;
use mailapi_model::{DomainName, EmailAddress, OneLine, Violations, WebhookSigning};
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
    /// What the request says about members that cannot be changed.
    pub fixed: FixedMembers,
}

/// Members that cannot be changed, because they decide which events a receiver may get and how it verifies them. A
/// request may contain their current values, so that a client can send back what it has read.
#[derive(Debug, Clone, Default)]
pub struct FixedMembers {
    /// The domain of the events.
    pub domain: Option<Option<DomainName>>,
    /// The mailbox of the events.
    pub mailbox: Option<Option<EmailAddress>>,
    /// How messages are signed.
    pub signing: Option<WebhookSigning>,
    /// Whether there is a secret. Only a rotation replaces it.
    pub has_secret: bool,
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
        check(&change, &webhook)?;
        let new_url = change.url.as_ref().filter(|url| **url != webhook.url);
        let is_due = new_url.is_some() || (change.enabled == Some(true) && !webhook.confirmed);
        if is_due {
            let url = new_url.unwrap_or(&webhook.url);
            let receiver = receiver(url, webhook.author.user().is_none())?;
            self.check_receiver(&Share::of(&webhook), &receiver, &self.key_of(&webhook)?).await?;
        }
        let UpdateWebhook { url, types, description, enabled, .. } = change;
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

fn check(change: &UpdateWebhook, webhook: &Webhook) -> Result<(), Violations> {
    let mut violations = Violations::none();
    check_fixed(&change.fixed, webhook, &mut violations);
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

fn check_fixed(fixed: &FixedMembers, webhook: &Webhook, violations: &mut Violations) {
    for (field, is_changed) in [
        ("domain", fixed.domain.as_ref().is_some_and(|domain| *domain != webhook.domain)),
        ("mailbox", fixed.mailbox.as_ref().is_some_and(|mailbox| *mailbox != webhook.mailbox)),
        ("signing", fixed.signing.is_some_and(|signing| signing != webhook.signing)),
    ] {
        if is_changed {
            violations.add(field, "cannot be changed; register another webhook");
        }
    }
    if fixed.has_secret {
        violations.add("secret", "cannot be set here; rotate the webhook");
    }
}
