//! `POST /domains/{domain}/approve`.

use mailapi_model::{DkimAlgorithm, Domain, DomainName};

use super::DomainError;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Lets a domain in that waits for it: activates it, and gives it a DKIM key. One that was let in is activated and
    /// gets no key: its mail would be signed from now on with a key that nobody can find.
    ///
    /// # Errors
    /// See [`DomainError`].
    pub async fn approve_domain(&self, caller: &Caller, name: &DomainName) -> Result<Domain, DomainError> {
        caller.grants.admin()?;
        let (domain, by) = (name.clone(), caller.name());
        self.in_turn_of_domain(name, async move |service: Self| service.let_in(&domain, &by).await).await
    }

    /// In the turn of the domain: what is let in is what was looked at.
    pub(super) async fn let_in(&self, name: &DomainName, by: &str) -> Result<Domain, DomainError> {
        let domain = self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)?;
        let first_key = match domain.approved {
            true => None,
            false => Some(self.with_fresh_selector(name, self.new_dkim_key(DkimAlgorithm::Rsa2048).await?).await?),
        };
        if !self.0.store.domains().approve(name, first_key.as_ref()).await? {
            return Err(DomainError::NotFound);
        }
        self.0.epoch.end();
        self.0.backend.provisioning.put_domain(name).await.map_err(Unavailable::from)?;
        tracing::info!(domain = %name, by, "domain approved");
        self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)
    }
}
