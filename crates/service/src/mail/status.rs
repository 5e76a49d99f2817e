//! `GET /mail/{message_id}/status`.

use mailapi_model::{EmailAddress, MessageId, SentMessage, Timestamp};
use mailapi_store::SentRecord;

use crate::cache::EpochCache;
use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Unavailable};

/// Creation times of accounts; `None` for addresses without one.
pub(crate) type AccountAges = EpochCache<EmailAddress, Option<Timestamp>>;

/// The reason why no status is returned.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The message does not exist or is not visible to the caller.
    #[error("the message does not exist")]
    NotFound,
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(StatusError);

impl Service {
    /// Returns the status of a message to the token that sent it, to all tokens of the same mailbox, and to admins.
    ///
    /// # Errors
    /// See [`StatusError`].
    pub async fn status(&self, caller: &Caller, id: MessageId) -> Result<SentRecord, StatusError> {
        let record = self.0.store.sent().get(id).await?.ok_or(StatusError::NotFound)?;
        if may_see(caller, &record.message) && self.is_of_this_owner(caller, &record.message).await? {
            Ok(record)
        } else {
            Err(StatusError::NotFound)
        }
    }

    /// Whether the message was sent after the caller's account was created. An earlier owner of the address may
    /// have sent it before.
    async fn is_of_this_owner(&self, caller: &Caller, message: &SentMessage) -> Result<bool, Unavailable> {
        let since = self.owner_since(caller).await?;
        Ok(since.is_none_or(|since| message.created_at >= since))
    }

    /// The creation time of the caller's account; `None` for admins, who see all messages.
    pub(super) async fn owner_since(&self, caller: &Caller) -> Result<Option<Timestamp>, Unavailable> {
        match caller.grants.mailbox() {
            Some(mailbox) if caller.grants.admin().is_err() => self.account_since(mailbox).await,
            _ => Ok(None),
        }
    }

    /// The creation time of the mailbox's account; `None` if there is none.
    pub(crate) async fn account_since(&self, mailbox: &EmailAddress) -> Result<Option<Timestamp>, Unavailable> {
        let read = async || {
            let account = self.0.store.accounts().get(mailbox).await?;
            Ok(account.map(|account| account.created_at))
        };
        self.0.account_ages.get_or_read(&self.0.epoch, mailbox, read).await
    }
}

fn may_see(caller: &Caller, message: &SentMessage) -> bool {
    let own_token = caller.token.as_ref().is_some_and(|token| message.token_id == Some(token.id));
    let own_mailbox = caller.grants.mailbox().is_some() && caller.grants.mailbox() == message.mailbox.as_ref();
    own_token || own_mailbox || caller.grants.admin().is_ok()
}
