//! `GET /domains`.

use mailapi_model::{Domain, Listed, Page, Permission};
use mailapi_store::DomainFilter;

use super::DomainError;
use crate::{Caller, Service};

impl Service {
    /// Returns domains, newest first: all for an admin, else those that the caller may manage.
    ///
    /// # Errors
    /// See [`DomainError`].
    pub async fn list_domains(&self, caller: &Caller, page: Page) -> Result<Listed<Domain>, DomainError> {
        let managed = || caller.grants.domains_with(Permission::ManageDomains).cloned().collect();
        let only = if caller.grants.admin().is_ok() { None } else { Some(managed()) };
        Ok(self.0.store.domains().list(&DomainFilter { only, pending: false }, page).await?)
    }
}
