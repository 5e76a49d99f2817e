//! Permissions granted by admins.

mod bulk;
mod grant;
mod list;
mod mine;
mod revoke;

use mailapi_model::{Denied, DomainName, EmailAddress, Permission, PermissionRecord, Violations};
use mailapi_store::{NewGrant, StoreError};

use crate::caller::audit;
use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Unavailable};

pub use bulk::BulkGranted;
pub use list::PermissionQuery;

/// The reason why an operation on a permission failed.
#[derive(Debug, thiserror::Error)]
pub enum PermissionError {
    /// The caller is not an admin.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The permission does not exist.
    #[error("the permission does not exist")]
    NotFound,
    /// The mailbox has the permission already.
    #[error("the user already has this permission on the domain")]
    Exists,
    /// The mailbox to grant it to does not exist.
    #[error("the user does not exist")]
    UserNotFound,
    /// The domain does not exist.
    #[error("the domain does not exist")]
    DomainNotFound,
    /// The request is invalid.
    #[error(transparent)]
    Invalid(#[from] Violations),
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(PermissionError);

impl Service {
    /// Grants the missing permissions in one transaction, and returns them.
    async fn grant_new(
        &self,
        caller: &Caller,
        email: &EmailAddress,
        permissions: Vec<Permission>,
        domain: &DomainName,
    ) -> Result<Vec<PermissionRecord>, PermissionError> {
        caller.grants.admin()?;
        if self.0.store.accounts().get(email).await?.is_none() {
            return Err(PermissionError::UserNotFound);
        }
        if self.0.store.domains().get(domain).await?.is_none() {
            return Err(PermissionError::DomainNotFound);
        }
        if self.0.settings.admins.contains(email) {
            return Err(Violations::of("email", "is an admin's address; admins have every permission").into());
        }
        let grant = NewGrant {
            email: email.clone(),
            permissions,
            domain: domain.clone(),
            granted_by: caller.name(),
            granted_at: self.0.clock.now(),
        };
        let granted = match self.0.store.permissions().grant(&grant).await {
            Err(StoreError::Reference) => return Err(self.missing(email).await?),
            granted => granted?,
        };
        self.changed();
        for record in &granted {
            audit!(caller, mailbox = %email, permission = %record.permission, %domain, "granted");
        }
        Ok(granted)
    }

    /// The cause of a failed grant: the mailbox was deleted meanwhile, or else the domain.
    async fn missing(&self, email: &EmailAddress) -> Result<PermissionError, Unavailable> {
        let account = self.0.store.accounts().get(email).await?;
        Ok(if account.is_none() { PermissionError::UserNotFound } else { PermissionError::DomainNotFound })
    }
}
