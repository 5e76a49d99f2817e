//! `GET /domains/pending`.

use mailapi_model::{Domain, Listed, Page};
use mailapi_store::DomainFilter;

use super::DomainError;
use crate::{Caller, Service};

impl Service {
    /// Returns domains that wait for approval, newest first. Approved domains that were disabled are not included.
    ///
    /// # Errors
    /// See [`DomainError`].
    pub async fn pending_domains(&self, caller: &Caller, page: Page) -> Result<Listed<Domain>, DomainError> {
        caller.grants.admin()?;
        Ok(self.0.store.domains().list(&DomainFilter { only: None, pending: true }, page).await?)
    }
}
