//! `POST /permissions/bulk`.

use mailapi_model::{DomainName, EmailAddress, Permission};

use super::PermissionError;
use crate::{Caller, Service};

/// The result of a bulk grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkGranted {
    /// New permissions, in the order of the request.
    pub granted: Vec<Permission>,
    /// Permissions granted earlier.
    pub skipped: Vec<Permission>,
}

impl Service {
    /// Grants several permissions; skips those granted earlier.
    ///
    /// # Errors
    /// See [`PermissionError`].
    pub async fn grant_permissions(
        &self,
        caller: &Caller,
        email: &EmailAddress,
        mut permissions: Vec<Permission>,
        domain: &DomainName,
    ) -> Result<BulkGranted, PermissionError> {
        let mut seen = Vec::new();
        permissions.retain(|permission| {
            !seen.contains(permission) && {
                seen.push(*permission);
                true
            }
        });
        let new = self.grant_new(caller, email, permissions.clone(), domain).await?;
        let is_new = |permission: &Permission| new.iter().any(|record| record.permission == *permission);
        let (granted, skipped) = permissions.into_iter().partition(is_new);
        Ok(BulkGranted { granted, skipped })
    }
}
