//! `GET /permissions`.

use mailapi_model::{DomainName, EmailAddress, Listed, Page, PermissionRecord};
use mailapi_store::PermissionFilter;

use super::PermissionError;
use crate::{Caller, Service};

/// Filters for permissions; `None` means no filter.
#[derive(Debug, Clone, Default)]
pub struct PermissionQuery {
    /// Of this mailbox.
    pub email: Option<EmailAddress>,
    /// In this domain.
    pub domain: Option<DomainName>,
}

impl Service {
    /// Returns permissions, newest first.
    ///
    /// # Errors
    /// See [`PermissionError`].
    pub async fn list_permissions(
        &self,
        caller: &Caller,
        query: PermissionQuery,
        page: Page,
    ) -> Result<Listed<PermissionRecord>, PermissionError> {
        caller.grants.admin()?;
        let filter = PermissionFilter { email: query.email, domain: query.domain };
        Ok(self.0.store.permissions().list(&filter, page).await?)
    }
}
