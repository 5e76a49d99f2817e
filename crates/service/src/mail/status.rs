//! `GET /mail/{message_id}/status`.

use mailapi_model::{MessageId, SentMessage};
use mailapi_store::SentRecord;

use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Unavailable};

/// Why no status is told.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// There is no such message, or it is not the caller's.
    #[error("the message does not exist")]
    NotFound,
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(StatusError);

impl Service {
    /// What became of a message: told to the token that sent it, to every token of the same mailbox, and to admins.
    ///
    /// # Errors
    /// See [`StatusError`].
    pub async fn status(&self, caller: &Caller, id: MessageId) -> Result<SentRecord, StatusError> {
        let record = self.0.store.sent().get(id).await?.ok_or(StatusError::NotFound)?;
        if may_see(caller, &record.message) { Ok(record) } else { Err(StatusError::NotFound) }
    }
}

fn may_see(caller: &Caller, message: &SentMessage) -> bool {
    let own_token = caller.token.as_ref().is_some_and(|token| message.token_id == Some(token.id));
    let own_mailbox = caller.grants.mailbox().is_some() && caller.grants.mailbox() == message.mailbox.as_ref();
    own_token || own_mailbox || caller.grants.admin().is_ok()
}
