//! `POST /domains/{domain}/approve`.

use mailapi_model::{DkimAlgorithm, Domain, DomainName};

use super::DomainError;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Activates a domain and gives it a DKIM key if it has none. A second approval changes nothing.
    ///
    /// # Errors
    /// See [`DomainError`].
    pub async fn approve_domain(&self, caller: &Caller, name: &DomainName) -> Result<Domain, DomainError> {
        caller.grants.admin()?;
        if self.0.store.domains().get(name).await?.is_none() {
            return Err(DomainError::NotFound);
        }
        let key = match self.0.store.dkim_keys().newest(name).await? {
            Some(key) => key,
            None => self.new_dkim_key(DkimAlgorithm::Rsa2048).await?,
        };
        if !self.0.store.domains().approve(name, &key).await? {
            return Err(DomainError::NotFound);
        }
        self.0.epoch.end();
        self.0.backend.provisioning.put_domain(name).await.map_err(Unavailable::from)?;
        tracing::info!(domain = %name, by = caller.name(), "domain approved");
        self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)
    }
}
