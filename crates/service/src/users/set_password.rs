//! A new password for an account.

use mailapi_model::{EmailAddress, SecretText};

use super::UserError;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Sets the password and ends every session of the mailbox.
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
        let hash = self.hash(password).await?;
        if !self.0.store.accounts().set_password_hash(email, &hash, self.0.clock.now()).await? {
            return Err(UserError::NotFound);
        }
        self.0.epoch.end();
        self.0.backend.provisioning.account_changed(email).await.map_err(Unavailable::from)?;
        tracing::info!(mailbox = %email, by = caller.name(), "password changed");
        Ok(())
    }
}
