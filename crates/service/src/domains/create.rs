//! `POST /domains`.

use mailapi_model::{DkimAlgorithm, DkimKey, Domain, DomainName, NewDomain};

use super::DomainError;
use crate::caller::audit;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Creates a domain with its own DKIM key, active at once.
    ///
    /// The account database is changed first. After a crash before the mail server is changed, the next start
    /// repairs the difference.
    ///
    /// # Errors
    /// [`DomainError::Exists`] if the name is taken; see [`DomainError`].
    pub async fn create_domain(
        &self,
        caller: &Caller,
        name: DomainName,
        description: Option<String>,
    ) -> Result<Domain, DomainError> {
        caller.grants.admin()?;
        if self.0.store.domains().get(&name).await?.is_some() {
            return Err(DomainError::Exists);
        }
        let now = self.0.clock.now();
        let key = self.new_dkim_key(DkimAlgorithm::Rsa2048).await?;
        let new = NewDomain { name: name.clone(), active: true, description, creator_email: None, created_at: now };
        let by = caller.clone();
        self.with_domain_lock(&name, async move |service: Self| service.add_domain(new, key, &by).await).await
    }

    async fn add_domain(&self, new: NewDomain, key: DkimKey, by: &Caller) -> Result<Domain, DomainError> {
        // Again, while the domain is locked.
        if self.0.store.domains().get(&new.name).await?.is_some() {
            return Err(DomainError::Exists);
        }
        self.drop_former_aliases(&new.name).await?;
        let key = self.with_fresh_selector(&new.name, key).await?;
        self.0.store.domains().insert(&new, Some(&key)).await.map_err(|error| match error {
            error if error.is_conflict() => DomainError::Exists,
            error => error.into(),
        })?;
        self.changed();
        let name = new.name;
        self.0.backend.provisioning.put_domain(&name).await.map_err(Unavailable::from)?;
        audit!(by, domain = %name, "domain created");
        self.0.store.domains().get(&name).await?.ok_or(DomainError::NotFound)
    }

    /// Removes the aliases that a deleted domain of this name left at the mail server. They would receive mail again.
    pub(crate) async fn drop_former_aliases(&self, name: &DomainName) -> Result<(), Unavailable> {
        self.0.backend.provisioning.remove_aliases_of(name).await.map_err(Unavailable::from)
    }
}
