//! `POST /users/{email}/enable`.

use mailapi_model::{Account, EmailAddress};

use super::{User, UserError};
use crate::caller::audit;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Enables login and the tokens of an account.
    ///
    /// # Errors
    /// See [`UserError`].
    pub async fn enable_user(&self, caller: &Caller, email: &EmailAddress) -> Result<User, UserError> {
        self.set_active(caller, email, true).await
    }

    /// Enables an account, or disables it and ends its sessions.
    pub(super) async fn set_active(
        &self,
        caller: &Caller,
        email: &EmailAddress,
        active: bool,
    ) -> Result<User, UserError> {
        self.may_manage(caller, email)?;
        let (address, by) = (email.clone(), caller.clone());
        let account = self
            .with_address_lock(email, async move |service: Self| service.switch(&address, active, &by).await)
            .await?;
        Ok(self.with_quota(account).await)
    }

    async fn switch(&self, email: &EmailAddress, active: bool, by: &Caller) -> Result<Account, UserError> {
        self.demand_own(email).await?;
        if !self.0.store.accounts().set_active(email, active, self.0.clock.now()).await? {
            return Err(UserError::NotFound);
        }
        self.changed();
        self.0.backend.provisioning.account_changed(email).await.map_err(Unavailable::from)?;
        audit!(by, mailbox = %email, active, "user enabled or disabled");
        self.0.store.accounts().get(email).await?.ok_or(UserError::NotFound)
    }
}
