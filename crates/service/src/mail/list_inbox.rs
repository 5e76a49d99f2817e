//! `GET /mail/inbox`.

use mailapi_model::{Denied, EmailAddress, ReadMailbox};

use crate::{Caller, Service};

/// The reason why no inbox is listed.
#[derive(Debug, thiserror::Error)]
pub enum ListInboxError {
    /// An admin's API token has no mailbox of its own, and the request names none.
    #[error("is required: an admin token has no mailbox")]
    NoMailbox,
    /// The caller may not read the mailbox.
    #[error(transparent)]
    Denied(#[from] Denied),
}

impl Service {
    /// Returns the mailbox to list with [`Service::list_messages`]: the named one if the caller may read it, by
    /// default the caller's own.
    ///
    /// # Errors
    /// See [`ListInboxError`].
    pub fn inbox_to_list(
        &self,
        caller: &Caller,
        mailbox: Option<&EmailAddress>,
    ) -> Result<ReadMailbox, ListInboxError> {
        let mailbox = mailbox.or_else(|| caller.grants.mailbox()).ok_or(ListInboxError::NoMailbox)?;
        Ok(caller.grants.may_read(mailbox)?)
    }
}
