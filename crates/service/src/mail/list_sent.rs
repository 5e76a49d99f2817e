//! `GET /mail/sent`.

use mailapi_model::{EmailAddress, Listed, MessageStatus, Page, SentSummary, Timestamp};
use mailapi_store::{SentFilter, SentOwner};

use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Unavailable};

/// Which sent messages a caller asks for; what is `None` does not narrow.
#[derive(Debug, Clone, Default)]
pub struct SentQuery {
    /// In this state.
    pub status: Option<MessageStatus>,
    /// From this address.
    pub from: Option<EmailAddress>,
    /// To, cc or bcc this address.
    pub recipient: Option<EmailAddress>,
    /// Stored at this moment or later.
    pub start: Option<Timestamp>,
    /// Stored before this moment.
    pub end: Option<Timestamp>,
}

/// Why no list is given.
#[derive(Debug, thiserror::Error)]
pub enum ListSentError {
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(ListSentError);

impl Service {
    /// Sent messages, newest first: an admin sees all, others what their mailbox sent.
    ///
    /// # Errors
    /// See [`ListSentError`].
    pub async fn list_sent(
        &self,
        caller: &Caller,
        query: SentQuery,
        page: Page,
    ) -> Result<Listed<SentSummary>, ListSentError> {
        let filter = SentFilter {
            owner: owner(caller),
            owner_since: self.owner_since(caller).await?,
            status: query.status,
            from: query.from,
            recipient: query.recipient,
            start: query.start,
            end: query.end,
        };
        Ok(self.0.store.sent().list(&filter, page).await?)
    }
}

fn owner(caller: &Caller) -> SentOwner {
    match caller.grants.mailbox() {
        _ if caller.grants.admin().is_ok() => SentOwner::All,
        Some(mailbox) => SentOwner::Mailbox(mailbox.clone()),
        None => SentOwner::All,
    }
}
