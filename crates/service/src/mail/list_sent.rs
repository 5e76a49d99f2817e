//! `GET /mail/sent`.

use mailapi_model::{EmailAddress, Listed, MessageStatus, Page, SentSummary, Timestamp};
use mailapi_store::{SentFilter, SentOwner};

use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Unavailable};

/// Filters for sent messages; `None` means no filter.
#[derive(Debug, Clone, Default)]
pub struct SentQuery {
    /// With this status.
    pub status: Option<MessageStatus>,
    /// From this address.
    pub from: Option<EmailAddress>,
    /// With this address in To, Cc or Bcc.
    pub recipient: Option<EmailAddress>,
    /// Stored at this time or later.
    pub start: Option<Timestamp>,
    /// Stored before this time.
    pub end: Option<Timestamp>,
}

/// The reason why the list is not available.
#[derive(Debug, thiserror::Error)]
pub enum ListSentError {
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(ListSentError);

impl Service {
    /// Returns sent messages, newest first: all for an admin, else those of the caller's mailbox.
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
