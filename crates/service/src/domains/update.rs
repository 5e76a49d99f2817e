//! `PUT /domains/{domain}`.

use mailapi_model::{Domain, DomainName};
use mailapi_store::DomainChange;

use super::DomainError;
use crate::caller::audit;
use crate::{Caller, Service};

impl Service {
    /// Changes a domain. Only an admin can activate a pending domain, which approves it.
    ///
    /// # Errors
    /// See [`DomainError`].
    pub async fn update_domain(
        &self,
        caller: &Caller,
        name: &DomainName,
        change: DomainChange,
    ) -> Result<Domain, DomainError> {
        caller.grants.may_manage_domain(name)?;
        let (domain, caller) = (name.clone(), caller.clone());
        self.with_domain_lock(name, async move |service: Self| service.change_domain(&caller, &domain, change).await)
            .await
    }

    async fn change_domain(
        &self,
        caller: &Caller,
        name: &DomainName,
        change: DomainChange,
    ) -> Result<Domain, DomainError> {
        let domain = self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)?;
        if change.active == Some(true) && !domain.approved {
            caller.grants.admin()?;
            self.let_in(name, caller).await?;
        }
        if !self.0.store.domains().update(name, &change, self.0.clock.now()).await? {
            return Err(DomainError::NotFound);
        }
        self.changed();
        audit!(caller, domain = %name, "domain changed");
        self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)
    }
}
