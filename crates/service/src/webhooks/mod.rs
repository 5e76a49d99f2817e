//! Webhooks, which send events to receivers by HTTP.

mod check;
mod connections;
mod create;
mod delete;
mod deliveries;
mod get;
mod interests;
mod list;
mod notice;
mod plan;
mod replay;
mod rights;
mod rotate;
mod round;
mod running;
mod schedule;
mod sender;
mod test;
mod update;

use std::sync::{Arc, OnceLock};

use mailapi_backend::Dns;
use mailapi_model::{Denied, Violations};
pub use mailapi_model::{ReplayedEvents, WebhookDisabled, WebhookId, WebhookSigning};
pub use mailapi_store::{FailedAttempt, Webhook, WebhookFailure};
use mailapi_webhooks::{AddressGuard, Exchange, Receiver, Registrant, SigningKey};
use tokio::sync::{Mutex, Notify};

use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Settings, Unavailable};
use connections::Connections;
use rights::AuthorRights;

pub use create::CreateWebhook;
pub use replay::Replay;
pub use sender::{WebhookSender, WebhookStep};
pub use test::TestResult;
pub use update::{FixedMembers, UpdateWebhook};

/// Maximum number of webhooks of one mailbox, and of one API token of admins.
const MOST_BY_ONE: u32 = 10;
/// Maximum number of webhooks for the events of one domain, and of those for all domains.
const MOST_OF_DOMAIN: u32 = 100;

/// The reason why an operation on a webhook failed.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The caller lacks permission. Callers without admin rights also get this error for webhooks that do not exist.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The webhook does not exist.
    #[error("the webhook does not exist")]
    NotFound,
    /// The domain of the events does not exist.
    #[error("the domain does not exist")]
    DomainNotFound,
    /// The mailbox of the events does not exist.
    #[error("the user does not exist")]
    UserNotFound,
    /// The request is invalid.
    #[error(transparent)]
    Invalid(#[from] Violations),
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(WebhookError);

/// The shared state of the operations on webhooks.
pub(crate) struct WebhookState {
    exchange: Exchange,
    /// Wakes the sender after a change.
    changed: Notify,
    /// The name of this process among the nodes.
    node: OnceLock<String>,
    rights: AuthorRights,
    connections: Connections,
    /// Held while owners of disabled webhooks are informed.
    notices: Mutex<()>,
}

impl WebhookState {
    pub(crate) fn new(dns: Arc<dyn Dns>, settings: &Settings) -> Self {
        let guard = AddressGuard::new(settings.webhooks.allow_networks.clone(), settings.webhooks.loopback);
        let exchange = Exchange::new(dns, guard, settings.webhooks.trust.clone());
        let rights = AuthorRights::new(settings.cached_callers);
        let connections = Connections::new();
        let (changed, node, notices) = (Notify::new(), OnceLock::new(), Mutex::default());
        Self { exchange, changed, node, rights, connections, notices }
    }
}

impl Service {
    /// Returns the webhook if the caller may see and change it: an admin, or the mailbox that registered it.
    async fn own_webhook(&self, caller: &Caller, id: WebhookId) -> Result<Webhook, WebhookError> {
        let webhook = self.0.store.webhooks().get(id).await?;
        match webhook {
            Some(webhook) if caller.grants.admin().is_ok() => Ok(webhook),
            Some(webhook) if is_user(&webhook, caller) => Ok(webhook),
            None if caller.grants.admin().is_ok() => Err(WebhookError::NotFound),
            // The same error as for webhooks of others: only an admin may learn which exist.
            _ => Err(Denied.into()),
        }
    }

    /// Returns the current key of a webhook.
    fn key_of(&self, webhook: &Webhook) -> Result<SigningKey, Unavailable> {
        SigningKey::from_bytes(webhook.signing, webhook.key.clone())
            .map_err(|error| Unavailable::Unforeseen(format!("the key of webhook {}: {error}", webhook.id)))
    }

    /// Returns the name of this process among the nodes.
    fn node(&self) -> &str {
        self.0.webhooks.node.get_or_init(|| {
            let random = || {
                let mut bytes = [0; 8];
                self.0.entropy.fill(&mut bytes);
                format!("{:016x}", u64::from_le_bytes(bytes))
            };
            // The name of a data directory survives a restart, so the process renews its own reservations at once.
            self.0.settings.node.clone().unwrap_or_else(random)
        })
    }
}

fn is_user(webhook: &Webhook, caller: &Caller) -> bool {
    let user = webhook.author.user();
    user.is_some() && user == caller.grants.mailbox()
}

/// Returns the receiver of a webhook.
fn receiver(url: &str, is_of_admin: bool) -> Result<Receiver, Violations> {
    let url = url.parse().map_err(|error: mailapi_webhooks::UrlError| Violations::of("url", error.to_string()))?;
    Ok(Receiver { url, registrant: if is_of_admin { Registrant::Admin } else { Registrant::User } })
}

/// Returns the public key of a webhook with `v1a`, for its receiver.
#[must_use]
pub fn public_key(webhook: &Webhook) -> Option<String> {
    SigningKey::from_bytes(webhook.signing, webhook.key.clone()).ok()?.public_key()
}
