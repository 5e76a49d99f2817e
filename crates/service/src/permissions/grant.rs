//! `POST /permissions`.

use mailapi_model::{DomainName, EmailAddress, Permission, PermissionRecord};

use super::PermissionError;
use crate::{Caller, Service};

impl Service {
    /// Grants a permission.
    ///
    /// # Errors
    /// [`PermissionError::Exists`] if it was granted earlier; see [`PermissionError`].
    pub async fn grant_permission(
        &self,
        caller: &Caller,
        email: &EmailAddress,
        permission: Permission,
        domain: &DomainName,
    ) -> Result<PermissionRecord, PermissionError> {
        let granted = self.grant_new(caller, email, vec![permission], domain).await?;
        granted.into_iter().next().ok_or(PermissionError::Exists)
    }
}
