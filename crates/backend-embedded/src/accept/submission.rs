//! Accepting mail from the API.

use async_trait::async_trait;
use mailapi_backend::{Accepted, Attempt, CommitGate, Submission, SubmitError};
use mailapi_model::{Blob, Envelope};
use mailapi_store::StoreError;

use super::{AcceptError, Incoming, Relaying, transaction};
use crate::MessageStore;

#[async_trait]
impl Submission for MessageStore {
    async fn submit_when(
        &self,
        envelope: Envelope,
        message: Blob,
        mut commit_gate: CommitGate,
    ) -> Result<Accepted, SubmitError> {
        commit_gate.pass().await?;
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
        let unavailable = |error: StoreError| SubmitError::Unavailable(error.to_string());
        let found = found.map_err(unavailable)?;
        if found.is_some() {
            // The answer must not be lost after a power loss: the caller acts on it.
            self.before_it_is_told().await.map_err(unavailable)?;
        } else if !attempt.by_this_node {
            return Err(SubmitError::Unavailable("the message may be in the message store of another node".to_owned()));
        }
        Ok(found)
    }

    async fn check(&self) -> Result<(), String> {
        self.keeps().map_err(|error| error.to_string())?;
        self.readable().await
    }
}

impl From<AcceptError> for SubmitError {
    fn from(error: AcceptError) -> Self {
        match error {
            AcceptError::Refused(reply) => Self::Refused(reply),
            AcceptError::NoRecipients(refused) => Self::NoRecipients(refused),
            // The rows are visible to readers, and the message is delivered if it did reach the disk.
            AcceptError::Store(StoreError::DiskFailed(_)) => Self::OutcomeUnknown,
            AcceptError::Store(error) => Self::Unavailable(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_only_said_not_to_be_taken_when_it_is_not() {
        let why = || "flushing the log".to_owned();
        let said = |error| SubmitError::from(AcceptError::Store(error));
        assert_eq!(said(StoreError::DiskFailed(why())), SubmitError::OutcomeUnknown);
        assert!(matches!(said(StoreError::Unavailable(why())), SubmitError::Unavailable(_)));
    }
}
