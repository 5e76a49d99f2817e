//! `POST /domains`.

use mailapi_model::{DkimAlgorithm, DkimKey, Domain, DomainName, NewDomain};

use super::DomainError;
use crate::mail::generate_key;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// A new domain, active at once, with a DKIM key of its own.
    ///
    /// The account database comes first: a crash between it and the mail server is mended at the next start.
    ///
    /// # Errors
    /// [`DomainError::Exists`] when there is one of that name; see [`DomainError`].
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
        let key = self.new_dkim_key(DkimAlgorithm::Rsa2048, 1).await?;
        let new = NewDomain { name: name.clone(), active: true, description, creator_email: None, created_at: now };
        self.0.store.domains().insert(&new, Some(&key)).await.map_err(|error| match error {
            error if error.is_conflict() => DomainError::Exists,
            error => error.into(),
        })?;
        self.0.epoch.end();
        self.0.backend.provisioning.put_domain(&name).await.map_err(Unavailable::from)?;
        tracing::info!(domain = %name, by = caller.name(), "domain created");
        self.0.store.domains().get(&name).await?.ok_or(DomainError::NotFound)
    }

    /// A key under today's `number`th selector: `m2026112101`.
    async fn new_dkim_key(&self, algorithm: DkimAlgorithm, number: u8) -> Result<DkimKey, Unavailable> {
        let now = self.0.clock.now();
        let today: String = now.to_string().chars().take(10).filter(|c| *c != '-').collect();
        let selector = format!("m{today}{number:02}");
        let made = tokio::task::spawn_blocking(move || generate_key(algorithm, selector, now)).await;
        let made = made.map_err(|error| Unavailable::Unforeseen(error.to_string()))?;
        made.map_err(|error| Unavailable::Unforeseen(error.to_string()))
    }
}
