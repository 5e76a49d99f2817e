//! Taking mail over from the API.

use async_trait::async_trait;
use mailapi_backend::{Accepted, Attempt, Submission, SubmitError};
use mailapi_model::{Envelope, Octets};
use mailapi_store::StoreError;

use super::{AcceptError, Incoming, Relaying, transaction};
use crate::Maildrop;

#[async_trait]
impl Submission for Maildrop {
    async fn submit(&self, envelope: Envelope, message: Octets) -> Result<Accepted, SubmitError> {
        let Envelope { message_id, sender, recipients } = envelope;
        let now = self.clock().now();
        let mut incoming = Incoming::new(sender, recipients, message, now, Relaying::Allowed);
        incoming.message_id = Some(message_id);
        let taken = self.accept(incoming).await?;
        Ok(Accepted { queue_id: taken.queue_id, refused: taken.refused })
    }

    async fn find(&self, attempt: &Attempt) -> Result<Option<Accepted>, SubmitError> {
        let message_id = attempt.message_id;
        let found: Result<_, StoreError> = self.read(|connection| transaction::find(connection, message_id)).await;
        found.map_err(|error| SubmitError::Unavailable(error.to_string()))
    }

    async fn check(&self) -> Result<(), String> {
        self.readable().await
    }
}

impl From<AcceptError> for SubmitError {
    fn from(error: AcceptError) -> Self {
        match error {
            AcceptError::Refused(reply) => Self::Refused(reply),
            AcceptError::NoRecipients(refused) => Self::NoRecipients(refused),
            AcceptError::Store(error) => Self::Unavailable(error.to_string()),
        }
    }
}
