//! The record of a message that is being sent; the backend decides when it is stored.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use mailapi_backend::{Accepted, Record, RecordError};
use mailapi_model::{Clock, EmailAddress, Reply};
use mailapi_store::{Begun, NewSent, Store, StoreError};

/// The record of a message in the account database.
pub(super) struct NewRecord {
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) new: NewSent,
}

impl NewRecord {
    /// Stores that the mail server has the message, or refused it for each recipient. If that fails, the
    /// message stays pending until [`crate::Service::recover_once`] finds it at the mail server.
    pub(super) async fn note_submitted(&self, accepted: &Accepted) {
        let Accepted { queue_id, refused } = accepted;
        let refused: Vec<(EmailAddress, Reply)> =
            refused.iter().map(|refusal| (refusal.recipient.clone(), refusal.reply.clone())).collect();
        let (message_id, now) = (self.new.message_id, self.clock.now());
        if let Err(error) = self.store.sent().submitted_new(&self.new, queue_id, now, &refused).await {
            tracing::error!(%message_id, %queue_id, %error, "message submitted, but its status could not be stored yet");
        }
    }
}

#[async_trait]
impl Record for NewRecord {
    fn may_repeat(&self) -> bool {
        self.new.idempotency.is_some()
    }

    async fn begin(&self) -> Result<(), RecordError> {
        match self.store.sent().begin(&self.new).await {
            Ok(Begun::New) => Ok(()),
            Ok(Begun::Repeat(_) | Begun::InFlight(_) | Begun::Conflict) | Err(StoreError::Conflict(_)) => {
                Err(RecordError::Exists)
            }
            Err(error) if error.is_unavailable() => Err(RecordError::Unavailable(error.to_string())),
            Err(error) => Err(RecordError::Unforeseen(error.to_string())),
        }
    }

    async fn submitted(&self, accepted: &Accepted) {
        self.note_submitted(accepted).await;
    }

    fn enlist(&self) -> Option<Box<dyn Any + Send>> {
        let enlisted = self.store.sent().enlist(&self.new)?;
        Some(Box::new(enlisted))
    }
}
