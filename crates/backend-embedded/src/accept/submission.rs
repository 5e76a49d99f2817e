//! Accepting mail from the API.

use async_trait::async_trait;
use mailapi_backend::{Accepted, Attempt, Record, RecordError, Submission, SubmitError};
use mailapi_model::{Blob, EmailAddress, Envelope, Reply};
use mailapi_store::{EnlistedRecord, StoreError};

use super::{AcceptError, Incoming, Relaying, Taken, TurnClaim, transaction};
use crate::MessageStore;

#[async_trait]
impl Submission for MessageStore {
    async fn submit(&self, envelope: Envelope, message: Blob, record: &dyn Record) -> Result<Accepted, SubmitError> {
        let Envelope { message_id, sender, recipients } = envelope;
        let now = self.clock().now();
        let mut incoming = Incoming::new(sender, recipients, message, now, Relaying::Allowed);
        incoming.message_id = Some(message_id);
        if let Some(enlisted) = self.enlisted(record) {
            return self.accept_recorded(incoming, enlisted, record).await;
        }
        record.begin().await?;
        let accepted = accepted(self.accept(incoming).await?);
        record.submitted(&accepted).await;
        Ok(accepted)
    }

    async fn find(&self, attempt: &Attempt) -> Result<Option<Accepted>, SubmitError> {
        let message_id = attempt.message_id;
        let found: Result<_, StoreError> = self.read(|connection| transaction::find(connection, message_id)).await;
        let unavailable = |error: StoreError| SubmitError::Unavailable(error.to_string());
        let found = found.map_err(unavailable)?;
        if found.is_some() {
            // The answer must not be lost after a power loss: the caller acts on it.
            self.until_durable().await.map_err(unavailable)?;
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

impl MessageStore {
    /// Returns the record for a transaction of this store, if the account database is the same file.
    fn enlisted(&self, record: &dyn Record) -> Option<EnlistedRecord> {
        let enlisted = record.enlist()?.downcast::<EnlistedRecord>().ok()?;
        Some(*enlisted).filter(|enlisted| self.is_file_of(enlisted))
    }

    /// Stores the record and accepts the message in one transaction.
    async fn accept_recorded(
        &self,
        incoming: Incoming,
        enlisted: EnlistedRecord,
        record: &dyn Record,
    ) -> Result<Accepted, SubmitError> {
        let prepared = match self.prepare(incoming).await {
            Ok(prepared) => prepared,
            Err(error) => {
                // A refused message has a record, too.
                record.begin().await?;
                return Err(error.into());
            }
        };
        let (settings, now, claim) = (self.settings().clone(), self.clock().now(), TurnClaim::of(&prepared.incoming));
        let written = self.write_message(claim, move |connection, touched, breadth| {
            enlisted.begin(connection)?;
            match transaction::accept(connection, &prepared, &settings, breadth, now, touched) {
                Ok(taken) => {
                    let refused: Vec<(EmailAddress, Reply)> =
                        taken.refused.iter().map(|one| (one.recipient.clone(), one.reply.clone())).collect();
                    enlisted.submitted(connection, &taken.queue_id, now, &refused)?;
                    Ok(Ok(taken))
                }
                Err(error @ (AcceptError::Store(_) | AcceptError::TooWide)) => Err(error),
                // A refusal comes before the first write, so the transaction has only the record.
                Err(refused) => Ok(Err(refused)),
            }
        });
        let not_written = |error| match error {
            AcceptError::Store(error) => not_recorded(error),
            error => error.into(),
        };
        Ok(accepted(written.await.map_err(not_written)??))
    }
}

fn accepted(taken: Taken) -> Accepted {
    Accepted { queue_id: taken.queue_id, refused: taken.refused }
}

/// Returns the error of a transaction of record and message: without the one there is not the other.
fn not_recorded(error: StoreError) -> SubmitError {
    match error {
        // The rows are visible to readers, and the message is delivered if it did reach the disk.
        StoreError::DiskFailed(_) => SubmitError::OutcomeUnknown,
        StoreError::Conflict(_) => RecordError::Exists.into(),
        error if error.is_unavailable() => RecordError::Unavailable(error.to_string()).into(),
        error => RecordError::Unforeseen(error.to_string()).into(),
    }
}

impl From<AcceptError> for SubmitError {
    fn from(error: AcceptError) -> Self {
        match error {
            AcceptError::Refused(reply) => Self::Refused(reply),
            AcceptError::NoRecipients(refused) => Self::NoRecipients(refused),
            // The rows are visible to readers, and the message is delivered if it did reach the disk.
            AcceptError::Store(StoreError::DiskFailed(_)) => Self::OutcomeUnknown,
            error @ (AcceptError::TooWide | AcceptError::Store(_)) => Self::Unavailable(error.to_string()),
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
