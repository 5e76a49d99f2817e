//! Checks of a receiver before it is stored.

use bytes::Bytes;
use mailapi_events::{EventId, webhook_challenge};
use mailapi_model::Violations;
use mailapi_webhooks::{ExchangeError, Message, Receiver, Registrant, SigningKey, Verdict};

use crate::Service;

/// Bytes of randomness in a challenge.
const CHALLENGE_BYTES: usize = 16;

/// The error for users if the check fails. The exact reason could describe the operator's network.
const NOT_CONFIRMED: &str = "the receiver is not public, or its answer to `webhook.challenge` lacked the challenge";

impl Service {
    /// Checks the addresses of an admin's receiver. A user's receiver must also echo a challenge, so that users cannot
    /// register servers of others.
    pub(super) async fn check_receiver(&self, receiver: &Receiver, key: &SigningKey) -> Result<(), Violations> {
        match receiver.registrant {
            Registrant::Admin => {
                let checked = self.0.webhooks.exchange.check(receiver).await;
                checked.map_err(|error| Violations::of("url", error.to_string()))
            }
            Registrant::User => match self.echoes_challenge(receiver, key).await {
                Ok(true) => Ok(()),
                Ok(false) | Err(_) => Err(Violations::of("url", NOT_CONFIRMED)),
            },
        }
    }

    async fn echoes_challenge(&self, receiver: &Receiver, key: &SigningKey) -> Result<bool, ExchangeError> {
        let mut bytes = [0; CHALLENGE_BYTES];
        self.0.entropy.fill(&mut bytes);
        let challenge: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let id = EventId::random(self.0.clock.now(), self.0.entropy.as_ref());
        let message = self.message(id, webhook_challenge(&challenge, id).into(), [key]);
        let answer = self.0.webhooks.exchange.send(receiver, &message, &mut None).await?;
        Ok(answer.verdict() == Verdict::Delivered && answer.excerpt.contains(&challenge))
    }

    /// Signs a body with these keys, now.
    pub(super) fn message<'a>(
        &self,
        id: EventId,
        body: Bytes,
        keys: impl IntoIterator<Item = &'a SigningKey>,
    ) -> Message {
        let (id, at) = (id.to_string(), self.0.clock.now());
        let signatures = mailapi_webhooks::signatures(keys, &id, at, &body);
        Message { id, at, signatures, body }
    }
}
