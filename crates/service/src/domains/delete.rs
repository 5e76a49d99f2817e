//! `DELETE /domains/{domain}`.

use mailapi_model::{DomainName, EmailAddress, Page};
use mailapi_store::{AccountFilter, DomainDeleted};

use super::DomainError;
use crate::caller::audit;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Removes a domain that has no mailboxes; with `force`, its mailboxes and all their mail with it.
    ///
    /// A mail server that manages its own domains comes first. It then refuses the domain's mail while the record still
    /// exists, and a repeated call finishes an interrupted deletion.
    ///
    /// # Errors
    /// [`DomainError::NotEmpty`] while it has mailboxes; [`Unavailable::Mailboxes`] when the mail server cannot remove one
    /// now: the domain stays; see [`DomainError`].
    pub async fn delete_domain(&self, caller: &Caller, name: &DomainName, force: bool) -> Result<(), DomainError> {
        caller.grants.admin()?;
        let (domain, by) = (name.clone(), caller.clone());
        self.with_domain_lock(name, async move |service: Self| service.remove_domain(&domain, force, &by).await).await
    }

    /// Runs in the turn of the domain.
    pub(super) async fn remove_domain(&self, name: &DomainName, force: bool, by: &Caller) -> Result<(), DomainError> {
        let domain = self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)?;
        if domain.user_count > 0 && !force {
            return Err(DomainError::NotEmpty);
        }
        // Mailboxes that another user database has are not ours to remove, as long as it is one.
        if self.0.store.directory().is_some() && self.0.store.copies().any_in(name).await? {
            return Err(DomainError::NotEmpty);
        }
        self.0.backend.provisioning.remove_domain(name).await.map_err(Unavailable::from)?;
        if force {
            self.take_mailboxes(name).await?;
        }
        let deleted = self.0.store.domains().delete(name, force, self.0.clock.now()).await?;
        self.0.epoch.end();
        match deleted {
            DomainDeleted::Missing => Err(DomainError::NotFound),
            DomainDeleted::NotEmpty => {
                // A mailbox was made between the look and the deletion: the domain stays, and so does its mail.
                self.0.backend.provisioning.put_domain(name).await.map_err(Unavailable::from)?;
                Err(DomainError::NotEmpty)
            }
            DomainDeleted::Gone => {
                audit!(by, domain = %name, "domain deleted");
                Ok(())
            }
        }
    }

    /// Takes all mailboxes of the domain, or opens the accounts again.
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
