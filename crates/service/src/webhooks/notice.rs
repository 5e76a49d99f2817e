//! The mail to the owner of a webhook that was disabled.

use mailapi_model::{EmailAddress, MessageId, WebhookDisabled};
use mailapi_store::Webhook;

use crate::mail::{Notice, NoticeSent};
use crate::{Service, Unavailable};

impl Service {
    /// Informs the owners of disabled webhooks who have no mail about it yet.
    pub(super) async fn send_webhook_notices(&self) -> Result<(), Unavailable> {
        // One at a time in this process; other nodes are kept away by the id of the message.
        let Ok(_alone) = self.0.webhooks.notices.try_lock() else { return Ok(()) };
        for (webhook, id) in self.0.store.webhooks().notices().await? {
            self.send_webhook_notice(&webhook, id).await?;
        }
        Ok(())
    }

    async fn send_webhook_notice(&self, webhook: &Webhook, id: MessageId) -> Result<(), Unavailable> {
        let to = self.owners_of(webhook).await?;
        let sent = if to.is_empty() {
            tracing::warn!(webhook = %webhook.id, "no owner of a disabled webhook has a mailbox here");
            NoticeSent::Refused
        } else {
            let recipients = to.len();
            let (subject, text) = (format!("Webhook {} is disabled", webhook.id), text(webhook));
            let sent = self.send_notice(Notice { id, to, subject, text }).await?;
            tracing::info!(webhook = %webhook.id, message_id = %id, recipients, ?sent, "notice of a disabled webhook");
            sent
        };
        let next = match sent {
            NoticeSent::Pending => return Ok(()),
            NoticeSent::No => Some(MessageId::random(self.0.clock.now(), self.0.entropy.as_ref())),
            NoticeSent::Yes | NoticeSent::Refused => None,
        };
        Ok(self.0.store.webhooks().set_notice(webhook.id, id, next).await?)
    }

    /// Returns the mailboxes of a webhook's owners: its user, or the admins who have a mailbox here.
    async fn owners_of(&self, webhook: &Webhook) -> Result<Vec<EmailAddress>, Unavailable> {
        let mut addresses: Vec<_> = match webhook.author.user() {
            Some(user) => vec![user.clone()],
            None => self.0.settings.admins.iter().cloned().collect(),
        };
        addresses.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        let mut owners = Vec::with_capacity(addresses.len());
        for address in addresses {
            if self.account_since(&address).await?.is_some() {
                owners.push(address);
            }
        }
        Ok(owners)
    }
}

fn text(webhook: &Webhook) -> String {
    let because = match webhook.disabled_because {
        Some(WebhookDisabled::Failures) => "For five days, the receiver accepted no message.",
        Some(WebhookDisabled::Gone) => "The receiver answered with status 410: it wants no more events.",
        Some(WebhookDisabled::Permission) => "Its author may no longer read the events.",
        Some(WebhookDisabled::Request) | None => "",
    };
    let (id, url) = (webhook.id, &webhook.url);
    format!(
        "mailapi no longer sends events to this receiver:\n\n{url}\n\n{because}\n\n\
         Later events are kept for a while. To resume where the webhook stopped, enable it:\n\n\
         POST /api/v1/webhooks/{id}/enable\n"
    )
}

#[cfg(test)]
mod tests {
    use mailapi_events::EventCursor;
    use mailapi_model::{Secret, Timestamp, WebhookAuthor, WebhookId, WebhookSigning};

    use super::*;

    #[test]
    fn each_reason_is_explained_and_no_secret_is_shown() {
        let at = Timestamp::from_seconds(0);
        let mut webhook = Webhook {
            id: WebhookId(3),
            url: "https://example.org/hook".to_owned(),
            types: Vec::new(),
            domain: None,
            mailbox: None,
            author: WebhookAuthor::Operator,
            description: String::new(),
            signing: WebhookSigning::V1,
            key: Secret::new(b"secret".to_vec()),
            former_key: None,
            enabled: false,
            confirmed: true,
            disabled_because: None,
            cursor: EventCursor::default(),
            failing_since: None,
            paused_until: None,
            last_attempt_at: None,
            last_success_at: None,
            last_error: None,
            created_at: at,
            updated_at: at,
            revision: 0,
        };
        let mut texts = std::collections::HashSet::new();
        for because in [WebhookDisabled::Failures, WebhookDisabled::Gone, WebhookDisabled::Permission] {
            webhook.disabled_because = Some(because);
            let text = text(&webhook);
            assert!(text.contains("https://example.org/hook") && text.contains("/webhooks/3/enable"), "{text}");
            assert!(!text.contains("secret"), "{text}");
            texts.insert(text);
        }
        assert_eq!(texts.len(), 3);
    }
}
