//! `DELETE /users/{email}/purge`.

use mailapi_backend::{MailboxError, Purged};
use mailapi_model::EmailAddress;

use super::UserError;
use crate::caller::audit;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Permanently deletes all mail in all folders. The account stays, and its usage is zero.
    ///
    /// # Errors
    /// [`Unavailable::Mailboxes`] if the mail server cannot do it now; see [`UserError`].
    pub async fn purge_user(&self, caller: &Caller, email: &EmailAddress) -> Result<Purged, UserError> {
        self.may_manage(caller, email)?;
        let (address, by) = (email.clone(), caller.clone());
        self.with_address_lock(email, async move |service: Self| service.empty_mailbox(&address, &by).await).await
    }

    async fn empty_mailbox(&self, email: &EmailAddress, by: &Caller) -> Result<Purged, UserError> {
        if self.0.store.accounts().get(email).await?.is_none() {
            return Err(UserError::NotFound);
        }
        let purged = self.0.backend.mailboxes.purge(email).await.map_err(|error| match error {
            MailboxError::NoSuchMailbox => UserError::NotFound,
            error => Unavailable::mailboxes(error).into(),
        })?;
        audit!(by, mailbox = %email, messages = purged.messages, "mailbox purged");
        Ok(purged)
    }
}
