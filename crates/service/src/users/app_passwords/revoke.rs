//! `DELETE /users/{email}/app-passwords/{id}`.

use mailapi_model::{AppPasswordId, EmailAddress};

use crate::caller::audit;
use crate::users::UserError;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Revokes an app password permanently, and ends its sessions.
    ///
    /// # Errors
    /// [`UserError::AppPasswordNotFound`] if the mailbox has no such app password; see [`UserError`].
    pub async fn revoke_app_password(
        &self,
        caller: &Caller,
        email: &EmailAddress,
        id: AppPasswordId,
    ) -> Result<(), UserError> {
        self.may_manage_app_passwords(caller, email)?;
        if self.0.store.accounts().get(email).await?.is_none() {
            return Err(UserError::NotFound);
        }
        if !self.0.store.app_passwords().revoke(email, id, self.0.clock.now()).await? {
            return Err(UserError::AppPasswordNotFound);
        }
        self.changed();
        audit!(caller, mailbox = %email, app_password = %id, "app password revoked");
        // The listeners of the built-in server check each session before its next command.
        self.0.backend.provisioning.end_sessions(email).await.map_err(Unavailable::from)?;
        Ok(())
    }
}
