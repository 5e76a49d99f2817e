//! `GET /domains/{domain}`.

use mailapi_model::{Domain, DomainName};

use super::DomainError;
use crate::{Caller, Service};

impl Service {
    /// Returns a domain.
    ///
    /// # Errors
    /// See [`DomainError`].
    pub async fn get_domain(&self, caller: &Caller, name: &DomainName) -> Result<Domain, DomainError> {
        caller.grants.may_manage_domain(name)?;
        self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)
    }
}
