//! `DELETE /domains/{domain}`.

use mailapi_model::DomainName;
use mailapi_store::DomainDeleted;

use super::DomainError;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Removes a domain that has no mailboxes.
    ///
    /// The mail server is told first: it then refuses the domain's mail while the record still stands, and a repeated
    /// call finishes what a crash interrupted.
    ///
    /// # Errors
    /// [`DomainError::NotEmpty`] while it has mailboxes; see [`DomainError`].
    pub async fn delete_domain(&self, caller: &Caller, name: &DomainName) -> Result<(), DomainError> {
        caller.grants.admin()?;
        let domain = self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)?;
        if domain.user_count > 0 {
            return Err(DomainError::NotEmpty);
        }
        self.0.backend.provisioning.remove_domain(name).await.map_err(Unavailable::from)?;
        let deleted = self.0.store.domains().delete(name, false).await?;
        self.0.epoch.end();
        match deleted {
            DomainDeleted::Missing => Err(DomainError::NotFound),
            DomainDeleted::NotEmpty => {
                // A mailbox was made between the look and the deletion: the domain stays, and so does its mail.
                self.0.backend.provisioning.put_domain(name).await.map_err(Unavailable::from)?;
                Err(DomainError::NotEmpty)
            }
            DomainDeleted::Gone => {
                tracing::info!(domain = %name, by = caller.name(), "domain deleted");
                Ok(())
            }
        }
    }
}
