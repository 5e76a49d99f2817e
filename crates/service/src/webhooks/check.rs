//! Checks of a receiver before it is stored.

use bytes::Bytes;
use mailapi_events::{EventId, webhook_challenge};
use mailapi_model::Violations;
use mailapi_webhooks::{Answer, ExchangeError, Message, Receiver, Registrant, SigningKey, Verdict};
use tokio::time::{Instant, sleep_until};

use super::connections::{ConnectionPermit, Share};
use crate::Service;

/// Bytes of randomness in a challenge.
const CHALLENGE_BYTES: usize = 16;

/// The error for users if the check fails. The exact reason could describe the operator's network.
const NOT_CONFIRMED: &str = "the receiver is not public, or its answer to `webhook.challenge` lacked the challenge";

/// The receiver did not answer a challenge with it.
pub(super) enum NoEcho {
    /// Another answer.
    Other(Answer),
    /// No answer.
    None(ExchangeError),
}

impl From<ExchangeError> for NoEcho {
    fn from(error: ExchangeError) -> Self {
        Self::None(error)
    }
}

impl Service {
    /// Checks the addresses of a receiver.
    pub(super) async fn check_addresses(&self, share: &Share, receiver: &Receiver) -> Result<(), Violations> {
        let check = self.0.webhooks.exchange.check(receiver);
        match receiver.registrant {
            Registrant::Admin => check.await.map_err(|error| Violations::of("url", error.to_string())),
            Registrant::User => {
                let checked = self.unrevealing(share, async { check.await.map_err(drop) }).await;
                checked.map_err(|()| Violations::of("url", NOT_CONFIRMED))
            }
        }
    }

    /// Checks a user's receiver. All failures take the same time: it would describe the operator's network. The user's share
    /// is held until then, so that few checks of a user wait, but the connection is free for others.
    async fn unrevealing<T, E>(&self, share: &Share, check: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let mut connection = self.0.webhooks.connections.requested().first(share).await;
        let end = Instant::now() + self.0.settings.webhooks.failed_check;
        let checked = check.await;
        if checked.is_err() {
            connection.iter_mut().for_each(ConnectionPermit::disconnect);
            sleep_until(end).await;
        }
        checked
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
            Registrant::Admin => self.check_addresses(share, receiver).await,
            Registrant::User => {
                let challenged = self.challenge(self.message_id(), share, receiver, key).await;
                challenged.map(drop).map_err(|_| Violations::of("url", NOT_CONFIRMED))
            }
        }
    }

    /// Sends a challenge to a user's receiver, and returns its answer.
    ///
    /// # Errors
    /// The answer is not the challenge, or there is none.
    pub(super) async fn challenge(
        &self,
        id: EventId,
        share: &Share,
        receiver: &Receiver,
        key: &SigningKey,
    ) -> Result<Answer, NoEcho> {
        self.unrevealing(share, self.challenge_now(id, receiver, key)).await
    }

    async fn challenge_now(&self, id: EventId, receiver: &Receiver, key: &SigningKey) -> Result<Answer, NoEcho> {
        let mut bytes = [0; CHALLENGE_BYTES];
        self.0.entropy.fill(&mut bytes);
        let challenge: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let message = self.message(id, webhook_challenge(&challenge, id).into(), [key]);
        let answer = self.0.webhooks.exchange.send(receiver, &message, &mut None).await?;
        let is_echo = answer.verdict() == Verdict::Delivered && answer.excerpt.contains(&challenge);
        if is_echo { Ok(answer) } else { Err(NoEcho::Other(answer)) }
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
