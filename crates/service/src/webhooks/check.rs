//! Checks of a receiver before it is stored.

use bytes::Bytes;
use mailapi_events::{EventId, webhook_challenge};
use mailapi_model::Violations;
use mailapi_webhooks::{Answer, ExchangeError, Message, Receiver, Registrant, SigningKey, Verdict};

use super::connections::Share;
use crate::Service;

/// Bytes of randomness in a challenge.
const CHALLENGE_BYTES: usize = 16;

/// The error for users if the check fails. The exact reason could describe the operator's network.
const NOT_CONFIRMED: &str = "the receiver is not public, or its answer to `webhook.challenge` lacked the challenge";

/// The answer to a challenge.
pub(super) struct ChallengeAnswer {
    pub(super) is_echo: bool,
    pub(super) answer: Answer,
}

impl Service {
    /// Checks the addresses of a receiver.
    pub(super) async fn check_addresses(&self, receiver: &Receiver) -> Result<(), Violations> {
        let checked = self.0.webhooks.exchange.check(receiver).await;
        checked.map_err(|error| match receiver.registrant {
            Registrant::Admin => Violations::of("url", error.to_string()),
            Registrant::User => Violations::of("url", NOT_CONFIRMED),
        })
    }

    /// Checks a receiver before it gets events: the addresses of an admin's. A user's receiver must also echo a
    /// challenge, so that users cannot register servers of others.
    pub(super) async fn check_receiver(
        &self,
        share: &Share,
        receiver: &Receiver,
        key: &SigningKey,
    ) -> Result<(), Violations> {
        match receiver.registrant {
            Registrant::Admin => self.check_addresses(receiver).await,
            Registrant::User => match self.challenge(self.message_id(), share, receiver, key).await {
                Ok(answer) if answer.is_echo => Ok(()),
                Ok(_) | Err(_) => Err(Violations::of("url", NOT_CONFIRMED)),
            },
        }
    }

    /// Sends a challenge and returns the receiver's answer.
    pub(super) async fn challenge(
        &self,
        id: EventId,
        share: &Share,
        receiver: &Receiver,
        key: &SigningKey,
    ) -> Result<ChallengeAnswer, ExchangeError> {
        let mut bytes = [0; CHALLENGE_BYTES];
        self.0.entropy.fill(&mut bytes);
        let challenge: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let message = self.message(id, webhook_challenge(&challenge, id).into(), [key]);
        let answer = self.send_now(share, receiver, &message).await?;
        let is_echo = answer.verdict() == Verdict::Delivered && answer.excerpt.contains(&challenge);
        Ok(ChallengeAnswer { is_echo, answer })
    }

    /// Sends one message on request.
    pub(super) async fn send_now(
        &self,
        share: &Share,
        receiver: &Receiver,
        message: &Message,
    ) -> Result<Answer, ExchangeError> {
        let _connection = self.0.webhooks.connections.requested().first(share).await;
        self.0.webhooks.exchange.send(receiver, message, &mut None).await
    }

    /// Returns the id of a message that is not in the log.
    pub(super) fn message_id(&self) -> EventId {
        EventId::random(self.0.clock.now(), self.0.entropy.as_ref())
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
