//! `GET /mail/inbox`.

use mailapi_model::{Denied, EmailAddress, ReadMailbox};

use crate::{Caller, Service};

/// Why no inbox is listed.
#[derive(Debug, thiserror::Error)]
pub enum ListInboxError {
    /// An admin's API token has no mailbox of its own and named none.
    #[error("an admin token has no mailbox of its own: name one")]
    NoMailbox,
    /// The caller may not read it.
    #[error(transparent)]
    Denied(#[from] Denied),
}

impl Service {
    /// Whose inbox is listed: the caller's own, or that of the mailbox which they name and may read. From there it is
    /// [`Service::list_messages`].
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
