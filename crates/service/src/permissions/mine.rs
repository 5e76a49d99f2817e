//! `GET /permissions/mine`.

use mailapi_model::PermissionRecord;

use super::PermissionError;
use crate::{Caller, Service};

impl Service {
    /// What was delegated to the caller, newest first. An admin's API token holds everything and nothing delegated.
    ///
    /// # Errors
    /// See [`PermissionError`].
    pub async fn own_permissions(&self, caller: &Caller) -> Result<Vec<PermissionRecord>, PermissionError> {
        match caller.grants.mailbox() {
            Some(mailbox) => Ok(self.0.store.permissions().of(mailbox).await?),
            None => Ok(Vec::new()),
        }
    }
}
