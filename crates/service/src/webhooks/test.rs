//! `POST /webhooks/{id}/test`.

use std::time::Duration;

use mailapi_events::{EventId, webhook_test};
use mailapi_webhooks::Verdict;

use super::{WebhookError, WebhookId, receiver};
use crate::{Caller, Service, Unavailable};

/// The result of a test message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestResult {
    /// The id of the message.
    pub id: EventId,
    /// Whether the receiver accepted it.
    pub delivered: bool,
    /// The receiver's HTTP status; `None` without an answer.
    pub status: Option<u16>,
    /// Time until the answer or the failure.
    pub duration: Duration,
    /// Why there was no answer; for admins only.
    pub error: Option<String>,
    /// The beginning of the answer; for admins only.
    pub answer: Option<String>,
}

impl Service {
    /// Sends a message of type `webhook.test` once, whether the webhook is enabled or not.
    ///
    /// # Errors
    /// See [`WebhookError`].
    pub async fn test_webhook(&self, caller: &Caller, id: WebhookId) -> Result<TestResult, WebhookError> {
        let webhook = self.own_webhook(caller, id).await?;
        let receiver = receiver(&webhook.url, webhook.author.user().is_none())?;
        let event_id = EventId::random(self.0.clock.now(), self.0.entropy.as_ref());
        let keys = self.keys_of(&webhook).map_err(|error| Unavailable::Unforeseen(error.to_string()))?;
        let message = self.message(event_id, webhook_test(id, event_id).into(), &keys);
        let begun = self.0.clock.steady();
        let answer = self.0.webhooks.exchange.send(&receiver, &message, &mut None).await;
        let duration = self.0.clock.steady().saturating_sub(begun);
        let is_admin = caller.grants.admin().is_ok();
        let (delivered, status, error, excerpt) = match answer {
            Ok(answer) => (answer.verdict() == Verdict::Delivered, Some(answer.status), None, Some(answer.excerpt)),
            Err(error) => (false, None, Some(error.to_string()), None),
        };
        let (error, answer) = (error.filter(|_| is_admin), excerpt.filter(|_| is_admin));
        Ok(TestResult { id: event_id, delivered, status, duration, error, answer })
    }
}
