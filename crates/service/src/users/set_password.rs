//! Sets the password of an account.

use mailapi_model::{EmailAddress, SecretText};

use super::UserError;
use crate::auth::Share;
use crate::caller::audit;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Sets the password and ends all sessions of the mailbox.
    ///
    /// # Errors
    /// See [`UserError`].
    pub async fn set_password(
        &self,
        caller: &Caller,
        email: &EmailAddress,
        password: SecretText,
    ) -> Result<(), UserError> {
        self.may_manage(caller, email)?;
        self.demand_own(email).await?;
        let hash = self.hash(password, Share::ACCOUNTS).await?;
        let (address, by) = (email.clone(), caller.clone());
        self.with_address_lock(email, async move |service: Self| service.replace_password(&address, &hash, &by).await)
            .await
    }

    /// Stores the new hash. The address must be locked.
    pub(super) async fn replace_password(
        &self,
        email: &EmailAddress,
        hash: &SecretText,
        by: &Caller,
    ) -> Result<(), UserError> {
        if !self.0.store.accounts().set_password_hash(email, hash, self.0.clock.now()).await? {
            return Err(UserError::NotFound);
        }
        self.changed();
        self.0.backend.provisioning.account_changed(email).await.map_err(Unavailable::from)?;
        audit!(by, mailbox = %email, "password changed");
        Ok(())
    }
}
