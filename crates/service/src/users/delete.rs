//! `DELETE /users/{email}`.

use mailapi_model::EmailAddress;

use super::UserError;
use crate::caller::audit;
use crate::{Caller, Service};

impl Service {
    /// Deletes an account with its tokens, permissions and mail.
    ///
    /// The mailbox is removed first and receives no mail from then on. After a crash in between, an account
    /// without a mailbox is left, and a repeated call finishes the work. In the other order, mail of a deleted
    /// account could remain.
    ///
    /// # Errors
    /// [`crate::Unavailable::Mailboxes`] if the mail server cannot do it now: the account stays. See [`UserError`].
    pub async fn delete_user(&self, caller: &Caller, email: &EmailAddress) -> Result<(), UserError> {
        self.may_manage(caller, email)?;
        let (gone, by) = (email.clone(), caller.clone());
        self.with_address_lock(email, async move |service: Self| service.remove_user(&gone, &by).await).await
    }

    async fn remove_user(&self, email: &EmailAddress, by: &Caller) -> Result<(), UserError> {
        self.demand_own(email).await?;
        if self.0.store.accounts().get(email).await?.is_none() {
            return Err(UserError::NotFound);
        }
        self.take_mailbox(email).await?;
        self.0.store.accounts().delete(email, self.0.clock.now()).await?;
        self.changed();
        audit!(by, mailbox = %email, "user deleted");
        Ok(())
    }
}
