//! `DELETE /permissions/{id}`.

use mailapi_model::{PermissionId, PermissionRecord};

use super::PermissionError;
use crate::caller::audit;
use crate::{Caller, Service};

impl Service {
    /// Revokes a permission, effective at once.
    ///
    /// # Errors
    /// See [`PermissionError`].
    pub async fn revoke_permission(
        &self,
        caller: &Caller,
        id: PermissionId,
    ) -> Result<PermissionRecord, PermissionError> {
        caller.grants.admin()?;
        let revoked = self.0.store.permissions().revoke(id).await?.ok_or(PermissionError::NotFound)?;
        self.changed();
        let PermissionRecord { email, permission, domain, .. } = &revoked;
        audit!(caller, mailbox = %email, %permission, %domain, "permission revoked");
        Ok(revoked)
    }
}
