//! `PUT /users/{email}`.

use mailapi_model::{AccountChange, EmailAddress, SecretText};

use super::{User, UserError};
use crate::{Caller, Service, Unavailable};

/// What is to change of an account; what is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct UpdateUser {
    /// Name and quota.
    pub record: AccountChange,
    /// A new password, already found good enough; it ends every session of the mailbox.
    pub password: Option<SecretText>,
}

impl Service {
    /// Changes an account.
    ///
    /// The account database comes first: a crash between it and the mail server is mended by [`Service::reconcile`].
    ///
    /// # Errors
    /// See [`UserError`].
    pub async fn update_user(
        &self,
        caller: &Caller,
        email: &EmailAddress,
        change: UpdateUser,
    ) -> Result<User, UserError> {
        self.may_manage(caller, email)?;
        self.demand_own(email).await?;
        if !self.0.store.accounts().update(email, &change.record, self.0.clock.now()).await? {
            return Err(UserError::NotFound);
        }
        self.0.epoch.end();
        if let Some(quota_bytes) = change.record.quota_bytes {
            self.0.backend.provisioning.put_mailbox(email, quota_bytes).await.map_err(Unavailable::from)?;
        }
        if let Some(password) = change.password {
            self.set_password(caller, email, password).await?;
        }
        tracing::info!(mailbox = %email, by = caller.name(), "user changed");
        let account = self.0.store.accounts().get(email).await?.ok_or(UserError::NotFound)?;
        Ok(self.with_quota(account).await)
    }
}
