//! Deletes domains that were signed up and never approved.

use mailapi_model::DomainName;

use super::DomainError;
use crate::{Caller, Service, Unavailable};

/// Maximum number of domains that one step deletes.
const STEP: usize = 100;

impl Service {
    /// Deletes domains that have waited for approval too long, with the user who signed up and the mail. Returns how many.
    ///
    /// # Errors
    /// [`Unavailable`] when the store or the mail server is; a domain that cannot be deleted does not keep the others.
    pub(crate) async fn expire_pending_domains(&self) -> Result<u64, Unavailable> {
        let oldest = self.0.clock.now().minus(self.0.settings.pending_domain_lifetime);
        let (mut expired, mut failed) = (0, None);
        for domain in self.0.store.domains().unapproved_since(oldest, STEP).await? {
            let name = domain.clone();
            let gone = self.with_domain_lock(&domain, async move |service: Self| service.expire_domain(&name).await);
            match gone.await {
                Ok(gone) => expired += u64::from(gone),
                Err(DomainError::Unavailable(error)) => failed = failed.or(Some(error)),
                // Another user database has mailboxes in it, or an admin deleted it in the meantime.
                Err(_) => {}
            }
        }
        failed.map_or(Ok(expired), Err)
    }

    /// In the turn of the domain: an admin may have approved it since it was listed, and its mail must stay then. So must
    /// the mail of users whom an admin added.
    async fn expire_domain(&self, domain: &DomainName) -> Result<bool, DomainError> {
        match self.0.store.domains().get(domain).await? {
            Some(found) if !found.approved && found.user_count <= 1 => {
                tracing::info!(%domain, "the domain was not approved in time");
                self.remove_domain(domain, true, &Caller::operator()).await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}
