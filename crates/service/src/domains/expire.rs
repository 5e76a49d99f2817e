//! Deletes signed-up domains that were not approved in time.

use mailapi_model::DomainName;

use super::DomainError;
use crate::{Caller, Service, Unavailable};

/// Maximum number of domains per run.
const STEP: usize = 100;

impl Service {
    /// Deletes domains pending for too long, with their first user and the mail. Returns their number.
    ///
    /// # Errors
    /// [`Unavailable`] if the store or the mail server is. A domain that cannot be deleted does not block the
    /// others.
    pub(crate) async fn expire_pending_domains(&self) -> Result<u64, Unavailable> {
        let oldest = self.0.clock.now().minus(self.0.settings.pending_domain_lifetime);
        let (mut expired, mut failed) = (0, None);
        for domain in self.0.store.domains().unapproved_since(oldest, STEP).await? {
            let name = domain.clone();
            let gone = self.with_domain_lock(&domain, async move |service: Self| service.expire_domain(&name).await);
            match gone.await {
                Ok(gone) => expired += u64::from(gone),
                Err(DomainError::Unavailable(error)) => failed = failed.or(Some(error)),
                // The domain has mailboxes in an external user database, or an admin deleted it meanwhile.
                Err(_) => {}
            }
        }
        failed.map_or(Ok(expired), Err)
    }

    /// Deletes the domain while it is locked. Keeps it if an admin has approved it since it was listed, or has
    /// added users.
    async fn expire_domain(&self, domain: &DomainName) -> Result<bool, DomainError> {
        match self.0.store.domains().get(domain).await? {
            Some(found) if !found.approved && found.user_count <= 1 => {
                tracing::info!(%domain, "removing a domain that was not approved in time");
                self.remove_domain(domain, true, &Caller::operator()).await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}
