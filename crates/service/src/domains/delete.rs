//! `DELETE /domains/{domain}`.

use mailapi_model::{DomainName, EmailAddress, Page};
use mailapi_store::{AccountFilter, DomainDeleted};

use super::DomainError;
use crate::caller::audit;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Deletes a domain without mailboxes, and its aliases; with `force`, also its mailboxes and their mail.
    ///
    /// A mail server that manages its own domains is changed first. It then rejects the domain's mail while the
    /// record still exists, and a repeated call finishes an interrupted deletion.
    ///
    /// # Errors
    /// [`DomainError::NotEmpty`] if it has mailboxes. [`Unavailable::Mailboxes`] if the mail server cannot remove
    /// one now: the domain stays. See [`DomainError`].
    pub async fn delete_domain(&self, caller: &Caller, name: &DomainName, force: bool) -> Result<(), DomainError> {
        caller.grants.admin()?;
        let (domain, by) = (name.clone(), caller.clone());
        self.with_domain_lock(name, async move |service: Self| service.remove_domain(&domain, force, &by).await).await
    }

    /// Deletes the domain while it is locked.
    pub(super) async fn remove_domain(&self, name: &DomainName, force: bool, by: &Caller) -> Result<(), DomainError> {
        let domain = self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)?;
        if domain.user_count > 0 && !force {
            return Err(DomainError::NotEmpty);
        }
        // The mailboxes of a configured external user database are managed there.
        if self.0.store.directory().is_some() && self.0.store.copies().any_in(name).await? {
            return Err(DomainError::NotEmpty);
        }
        self.0.backend.provisioning.remove_domain(name).await.map_err(Unavailable::from)?;
        if force {
            self.take_mailboxes(name).await?;
        }
        let deleted = self.0.store.domains().delete(name, force, self.0.clock.now()).await?;
        self.changed();
        match deleted {
            DomainDeleted::Missing => Err(DomainError::NotFound),
            DomainDeleted::NotEmpty => {
                // A mailbox was created since the check: the domain and its mail stay.
                self.0.backend.provisioning.put_domain(name).await.map_err(Unavailable::from)?;
                Err(DomainError::NotEmpty)
            }
            DomainDeleted::Gone => {
                self.forget_aliases_of(name).await;
                audit!(by, domain = %name, "domain deleted");
                Ok(())
            }
        }
    }

    /// Removes the aliases of a deleted domain from the mail server. They have no effect without the domain, and are
    /// removed again before a domain of this name is created.
    async fn forget_aliases_of(&self, name: &DomainName) {
        if let Err(error) = self.0.backend.provisioning.remove_aliases_of(name).await {
            tracing::error!(domain = %name, %error, "could not remove the aliases of a deleted domain; the next start does");
        }
    }

    /// Removes all mailboxes of the domain. If one fails, reopens the accounts already closed.
    async fn take_mailboxes(&self, domain: &DomainName) -> Result<(), DomainError> {
        let mut taken = Vec::new();
        let outcome = self.take_each_mailbox(domain, &mut taken).await;
        if outcome.is_err() {
            for email in taken {
                self.reopen(&email).await;
            }
        }
        outcome
    }

    async fn take_each_mailbox(&self, domain: &DomainName, taken: &mut Vec<EmailAddress>) -> Result<(), DomainError> {
        let filter = AccountFilter { domains: Some(vec![domain.clone()]), ..AccountFilter::default() };
        let mut offset = 0;
        loop {
            let accounts = self.0.store.accounts().list(&filter, Page::new(Page::MAX_LIMIT, offset)).await?.items;
            if accounts.is_empty() {
                return Ok(());
            }
            offset += accounts.len() as u64;
            for account in accounts {
                self.take_mailbox(&account.email).await?;
                taken.push(account.email);
            }
        }
    }
}
