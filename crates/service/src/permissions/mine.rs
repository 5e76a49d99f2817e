//! `GET /permissions/mine`.

use mailapi_model::{Listed, Page, PermissionRecord};
use mailapi_store::PermissionFilter;

use super::PermissionError;
use crate::{Caller, Service};

impl Service {
    /// Returns the permissions granted to the caller's mailbox, newest first. An admin's API token has none,
    /// since it may do everything.
    ///
    /// # Errors
    /// See [`PermissionError`].
    pub async fn own_permissions(
        &self,
        caller: &Caller,
        page: Page,
    ) -> Result<Listed<PermissionRecord>, PermissionError> {
        let Some(mailbox) = caller.grants.mailbox() else { return Ok(Listed { total: 0, items: Vec::new() }) };
        let filter = PermissionFilter { email: Some(mailbox.clone()), domain: None };
        Ok(self.0.store.permissions().list(&filter, page).await?)
    }
}
