//! The rights of a webhook's author, which decide what the webhook sends.

use std::sync::Arc;

use mailapi_model::{EmailAddress, Grants, ReadEvents, Timestamp, TokenId, TokenKind, WebhookAuthor};
use mailapi_store::Webhook;

use crate::cache::EpochCache;
use crate::{Caller, Service, Unavailable};

/// The rights of authors.
pub(super) type AuthorRights = EpochCache<WebhookAuthor, WebhookRights>;

/// What the author of a webhook may read now.
#[derive(Debug, Clone)]
pub(super) enum WebhookRights {
    /// These events, until the author's token expires.
    Held { rights: Arc<ReadEvents>, until: Option<Timestamp> },
    /// Nothing while the account is disabled.
    Suspended,
    /// The rights are lost: the author's token has ended, or the author is no longer an admin.
    Lost,
}

impl Service {
    /// Returns what the author of a webhook may read now. Cheap until accounts, tokens or permissions change.
    pub(super) async fn webhook_rights(&self, author: &WebhookAuthor) -> Result<WebhookRights, Unavailable> {
        let read = async || self.read_webhook_rights(author).await;
        let rights = self.0.webhooks.rights.get_or_read(&self.0.epoch, author, read).await?;
        let now = self.0.clock.now();
        Ok(match rights {
            WebhookRights::Held { until: Some(until), .. } if until <= now => WebhookRights::Lost,
            rights => rights,
        })
    }

    async fn read_webhook_rights(&self, author: &WebhookAuthor) -> Result<WebhookRights, Unavailable> {
        let until = match author.token() {
            None => None,
            Some(id) => match self.0.store.tokens().get(id).await? {
                Some(token) if token.is_active => token.expires_at,
                _ => return Ok(WebhookRights::Lost),
            },
        };
        let grants = match author {
            WebhookAuthor::Operator | WebhookAuthor::AdminToken(_) => Grants::admin_token(),
            WebhookAuthor::Admin(mailbox) if !self.0.settings.admins.contains(mailbox) => {
                return Ok(WebhookRights::Lost);
            }
            WebhookAuthor::Admin(mailbox) => self.grants_of(mailbox, TokenKind::Admin).await?,
            WebhookAuthor::User(mailbox, _) => self.grants_of(mailbox, TokenKind::User).await?,
        };
        Ok(match self.is_active(author.mailbox()).await? {
            Some(true) => WebhookRights::Held { rights: Arc::new(grants.may_read_events()), until },
            Some(false) => WebhookRights::Suspended,
            None => WebhookRights::Lost,
        })
    }

    /// Returns whether the author's account is enabled; `None` if it does not exist. Authors without a mailbox have no
    /// account that can be disabled.
    async fn is_active(&self, mailbox: Option<&EmailAddress>) -> Result<Option<bool>, Unavailable> {
        match mailbox {
            None => Ok(Some(true)),
            Some(mailbox) => Ok(self.0.store.accounts().get(mailbox).await?.map(|account| account.active)),
        }
    }

    /// Returns the author of a webhook that this caller enables, if the present one has lost the rights.
    pub(super) async fn new_author(
        &self,
        caller: &Caller,
        webhook: &Webhook,
    ) -> Result<Option<WebhookAuthor>, Unavailable> {
        if !matches!(self.webhook_rights(&webhook.author).await?, WebhookRights::Lost) {
            return Ok(None);
        }
        let is_admin = caller.grants.admin().is_ok();
        Ok(Some(match webhook.author.user() {
            // The admin decides that the user's webhook needs no token.
            Some(user) => WebhookAuthor::User(user.clone(), api_token(caller).filter(|_| !is_admin)),
            None => admin_author(caller),
        }))
    }
}

/// Returns an admin as the author of a webhook.
pub(super) fn admin_author(caller: &Caller) -> WebhookAuthor {
    match (caller.grants.mailbox(), api_token(caller)) {
        (Some(mailbox), _) => WebhookAuthor::Admin(mailbox.clone()),
        (None, Some(token)) => WebhookAuthor::AdminToken(token),
        (None, None) => WebhookAuthor::Operator,
    }
}

/// Returns the caller's API token. A session does not count: it ends soon, and its webhooks remain.
pub(super) fn api_token(caller: &Caller) -> Option<TokenId> {
    caller.token.as_ref().filter(|token| !token.is_session).map(|token| token.id)
}
