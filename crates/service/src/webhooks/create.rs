//! `POST /webhooks`.

use mailapi_events::TypePattern;
use mailapi_model::{Denied, DomainName, EmailAddress, OneLine, Secret, Violations, WebhookAuthor, WebhookSigning};
use mailapi_store::{NewWebhook, NewWebhookError, Webhook, WebhookLimits};
use mailapi_webhooks::SigningKey;

use super::connections::Share;
use super::rights::{admin_author, api_token};
use super::{MOST_BY_ONE, MOST_OF_DOMAIN, WebhookError, receiver};
use crate::caller::audit;
use crate::{Caller, Service};

/// Maximum number of event types and groups of types of one webhook.
const MOST_TYPES: usize = 30;

/// A request for a webhook.
#[derive(Debug, Clone)]
pub struct CreateWebhook {
    /// The receiver's URL.
    pub url: String,
    /// The types of events to send.
    pub types: Vec<TypePattern>,
    /// Only events of this domain.
    pub domain: Option<DomainName>,
    /// Only events of this mailbox. A user's webhook always has the user's own mailbox.
    pub mailbox: Option<EmailAddress>,
    /// Free text.
    pub description: String,
    /// How messages are signed.
    pub signing: WebhookSigning,
    /// The secret that the owner chose; a random one by default.
    pub secret: Option<Secret<String>>,
    /// Whether to send.
    pub enabled: bool,
}

impl Service {
    /// Registers a webhook. It gets the events from now on. The secret of `v1` is returned only here.
    ///
    /// # Errors
    /// See [`WebhookError`].
    pub async fn create_webhook(
        &self,
        caller: &Caller,
        new: CreateWebhook,
    ) -> Result<(Webhook, Option<Secret<String>>), WebhookError> {
        let (author, mailbox) = author_and_mailbox(caller, &new)?;
        let key = self.check_new(&new)?;
        let receiver = receiver(&new.url, author.user().is_none())?;
        self.check_names(new.domain.as_ref(), mailbox.as_ref()).await?;
        // The receiver of a disabled webhook is challenged when it is enabled: by then its owner has the key.
        let confirmed = new.enabled || author.user().is_none();
        let share = Share::of_new(&author);
        if confirmed {
            self.check_receiver(&share, &receiver, &key).await?;
        } else {
            self.check_addresses(&share, &receiver).await?;
        }
        let CreateWebhook { url, types, domain, description, signing, enabled, .. } = new;
        let new = NewWebhook {
            url,
            types,
            domain,
            mailbox,
            author,
            description,
            signing,
            key: key.bytes().clone(),
            enabled,
            confirmed,
            cursor: self.0.store.events().newest().await?,
            created_at: self.0.clock.now(),
        };
        let limits = WebhookLimits { by_one: MOST_BY_ONE, of_domain: MOST_OF_DOMAIN };
        let webhook = self.0.store.webhooks().insert(&new, limits).await?;
        self.0.webhooks.changed.notify_one();
        audit!(caller, webhook = %webhook.id, "webhook created");
        Ok((webhook, key.secret()))
    }

    /// Checks the request, and returns the key that signs.
    fn check_new(&self, new: &CreateWebhook) -> Result<SigningKey, Violations> {
        let mut violations = Violations::none();
        check_types(&new.types, &mut violations);
        violations.merge(OneLine::parse("description", &new.description));
        violations.merge(receiver(&new.url, true));
        let key = match (&new.secret, new.signing) {
            (None, signing) => Some(SigningKey::generate(signing, self.0.entropy.as_ref())),
            (Some(_), WebhookSigning::V1a) => {
                violations.merge(Err(Violations::of("secret", "must not be given with v1a")))
            }
            (Some(secret), WebhookSigning::V1) => {
                let key = SigningKey::parse_secret(secret.expose());
                violations.merge(key.map_err(|error| Violations::of("secret", error.to_string())))
            }
        };
        violations.or(key)
    }

    async fn check_names(
        &self,
        domain: Option<&DomainName>,
        mailbox: Option<&EmailAddress>,
    ) -> Result<(), WebhookError> {
        if let Some(domain) = domain
            && self.0.store.domains().get(domain).await?.is_none()
        {
            return Err(WebhookError::DomainNotFound);
        }
        if let Some(mailbox) = mailbox
            && self.0.store.accounts().get(mailbox).await?.is_none()
        {
            return Err(WebhookError::UserNotFound);
        }
        Ok(())
    }
}

/// Returns who registers the webhook, and the mailbox whose events it gets.
fn author_and_mailbox(caller: &Caller, new: &CreateWebhook) -> Result<(WebhookAuthor, Option<EmailAddress>), Denied> {
    if caller.grants.admin().is_ok() {
        return Ok((admin_author(caller), new.mailbox.clone()));
    }
    let own = caller.grants.mailbox().ok_or(Denied)?;
    let is_own = new.domain.is_none() && new.mailbox.as_ref().is_none_or(|mailbox| mailbox == own);
    let author = WebhookAuthor::User(own.clone(), api_token(caller));
    if is_own { Ok((author, Some(own.clone()))) } else { Err(Denied) }
}

pub(super) fn check_types(types: &[TypePattern], violations: &mut Violations) {
    if types.is_empty() || types.len() > MOST_TYPES {
        violations.add("types", format!("must have 1 to {MOST_TYPES} items"));
    }
}

impl From<NewWebhookError> for WebhookError {
    fn from(error: NewWebhookError) -> Self {
        match error {
            NewWebhookError::TooManyOfOne => {
                Violations::of("url", format!("the mailbox or the token has {MOST_BY_ONE} webhooks already")).into()
            }
            NewWebhookError::TooManyOfDomain => {
                Violations::of("url", format!("the domain has {MOST_OF_DOMAIN} webhooks already")).into()
            }
            // It was deleted after the check.
            NewWebhookError::Unknown => Self::UserNotFound,
            NewWebhookError::Store(error) => error.into(),
        }
    }
}
