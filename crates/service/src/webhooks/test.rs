//! `POST /webhooks/{id}/test`.

use std::time::Duration;

use mailapi_events::{EventId, webhook_test};
use mailapi_store::{Webhook, WebhookChange};
use mailapi_webhooks::{Answer, ExchangeError, Receiver, Verdict};

use super::check::NoEcho;
use super::connections::Share;
use super::{WebhookError, WebhookId, receiver};
use crate::{Caller, Service, Unavailable};

/// The result of a test message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestResult {
    /// The id of the message.
    pub id: EventId,
    /// Whether the receiver accepted it.
    pub delivered: bool,
    /// The receiver's HTTP status; `None` without an answer, and for users whose receiver is not confirmed.
    pub status: Option<u16>,
    /// Time until the answer or the failure.
    pub duration: Duration,
    /// Why there was no answer; for admins only.
    pub error: Option<String>,
    /// The beginning of the answer; for admins only.
    pub answer: Option<String>,
}

struct TestAnswer {
    id: EventId,
    delivered: bool,
    answer: Result<Answer, ExchangeError>,
}

impl Service {
    /// Sends a message of type `webhook.test` once, whether the webhook is enabled or not. While the receiver is not
    /// confirmed, the message is a challenge instead, and its echo confirms the receiver.
    ///
    /// # Errors
    /// See [`WebhookError`].
    pub async fn test_webhook(&self, caller: &Caller, id: WebhookId) -> Result<TestResult, WebhookError> {
        let webhook = self.own_webhook(caller, id).await?;
        let receiver = receiver(&webhook.url, webhook.author.user().is_none())?;
        let begun = self.0.clock.steady();
        let answer = if webhook.confirmed {
            self.send_test(&webhook, &receiver).await?
        } else {
            self.test_by_challenge(&webhook, &receiver).await?
        };
        let duration = self.0.clock.steady().saturating_sub(begun);
        let is_admin = caller.grants.admin().is_ok();
        let TestAnswer { id, delivered, answer } = answer;
        // Until its echo, the receiver may be a stranger's, and its status would describe the stranger's server.
        let shows_status = is_admin || webhook.confirmed || delivered;
        let (status, error, excerpt) = match answer {
            Ok(answer) => (Some(answer.status), None, Some(answer.excerpt)),
            Err(error) => (None, Some(error.to_string()), None),
        };
        let status = status.filter(|_| shows_status);
        let (error, answer) = (error.filter(|_| is_admin), excerpt.filter(|_| is_admin));
        Ok(TestResult { id, delivered, status, duration, error, answer })
    }

    async fn send_test(&self, webhook: &Webhook, receiver: &Receiver) -> Result<TestAnswer, Unavailable> {
        let id = self.message_id();
        let keys = self.keys_of(webhook).map_err(|error| Unavailable::Unforeseen(error.to_string()))?;
        let message = self.message(id, webhook_test(webhook.id, id).into(), &keys);
        let answer = self.send_now(&Share::of(webhook), receiver, &message).await;
        let delivered = answer.as_ref().is_ok_and(|answer| answer.verdict() == Verdict::Delivered);
        Ok(TestAnswer { id, delivered, answer })
    }

    /// Sends a challenge. Its echo confirms the receiver.
    async fn test_by_challenge(&self, webhook: &Webhook, receiver: &Receiver) -> Result<TestAnswer, Unavailable> {
        let id = self.message_id();
        let (delivered, answer) = match self.challenge(id, &Share::of(webhook), receiver, &self.key_of(webhook)?).await
        {
            Ok(answer) => (true, Ok(answer)),
            Err(NoEcho::Other(answer)) => (false, Ok(answer)),
            Err(NoEcho::None(error)) => (false, Err(error)),
        };
        if delivered {
            let confirmed = WebhookChange { confirmed: true, ..WebhookChange::default() };
            self.0.store.webhooks().update(webhook.id, &confirmed, self.0.clock.now()).await?;
        }
        Ok(TestAnswer { id, delivered, answer })
    }
}
