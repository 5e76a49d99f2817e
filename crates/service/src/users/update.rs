//! `PUT /users/{email}`.

use mailapi_model::{Account, AccountChange, EmailAddress, SecretText};

use super::{User, UserError};
use crate::auth::Share;
use crate::caller::audit;
use crate::{Caller, Service, Unavailable};

/// Changes of an account; `None` keeps the value.
#[derive(Debug, Clone, Default)]
pub struct UpdateUser {
    /// Name and quota.
    pub record: AccountChange,
    /// A new password, already checked by the password rules; it ends all sessions of the mailbox.
    pub password: Option<SecretText>,
}

impl Service {
    /// Changes an account.
    ///
    /// The account database is changed first; after a crash, [`Service::reconcile`] repairs the difference.
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
        let UpdateUser { mut record, password } = change;
        // Zero means no limit, as at the creation.
        record.quota_bytes = record.quota_bytes.map(|quota| quota.filter(|bytes| *bytes > 0));
        // Hashing is slow, so compute the hash before the address is locked.
        let hash = match password {
            Some(password) => Some(self.hash(password, Share::ACCOUNTS).await?),
            None => None,
        };
        let (address, by) = (email.clone(), caller.clone());
        let account = self
            .with_address_lock(email, async move |service: Self| {
                service.change_user(&address, &record, hash.as_ref(), &by).await
            })
            .await?;
        Ok(self.with_quota(account).await)
    }

    async fn change_user(
        &self,
        email: &EmailAddress,
        record: &AccountChange,
        hash: Option<&SecretText>,
        by: &Caller,
    ) -> Result<Account, UserError> {
        if !self.0.store.accounts().update(email, record, self.0.clock.now()).await? {
            return Err(UserError::NotFound);
        }
        self.changed();
        if let Some(quota_bytes) = record.quota_bytes {
            self.0.backend.provisioning.set_quota(email, quota_bytes).await.map_err(Unavailable::from)?;
        }
        if let Some(hash) = hash {
            self.replace_password(email, hash, by).await?;
        }
        audit!(by, mailbox = %email, "user changed");
        self.0.store.accounts().get(email).await?.ok_or(UserError::NotFound)
    }
}
