//! `POST /domains/{domain}/approve`.

use mailapi_model::{AccountChange, DkimAlgorithm, Domain, DomainName, Page};
use mailapi_store::AccountFilter;

use super::DomainError;
use crate::caller::audit;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Approves a pending domain: activates it and creates its DKIM key. A domain that is already approved is
    /// activated without a new key, since its mail would be signed with an unpublished key. Mailboxes with the
    /// sign-up quota get the default quota.
    ///
    /// # Errors
    /// See [`DomainError`].
    pub async fn approve_domain(&self, caller: &Caller, name: &DomainName) -> Result<Domain, DomainError> {
        caller.grants.admin()?;
        let (domain, by) = (name.clone(), caller.clone());
        self.with_domain_lock(name, async move |service: Self| service.let_in(&domain, &by).await).await
    }

    /// Approves the domain while it is locked, so that its state cannot change in between.
    pub(super) async fn let_in(&self, name: &DomainName, by: &Caller) -> Result<Domain, DomainError> {
        let domain = self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)?;
        let first_key = match domain.approved {
            true => None,
            false => Some(self.with_fresh_selector(name, self.new_dkim_key(DkimAlgorithm::Rsa2048).await?).await?),
        };
        // Do this first: once the domain is approved, a repeated call no longer lifts the quota.
        if !domain.approved {
            self.lift_signup_quota(name).await?;
        }
        if !self.0.store.domains().approve(name, first_key.as_ref(), self.0.clock.now()).await? {
            return Err(DomainError::NotFound);
        }
        self.changed();
        // Last, so that the mail server accepts mail only for an approved domain.
        self.0.backend.provisioning.put_domain(name).await.map_err(Unavailable::from)?;
        audit!(by, domain = %name, "domain approved");
        self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)
    }

    /// Raises the sign-up quota of mailboxes to the default quota.
    async fn lift_signup_quota(&self, domain: &DomainName) -> Result<(), DomainError> {
        let (old, new) = (self.0.settings.signup_quota(), self.0.settings.default_quota());
        let change = AccountChange { quota_bytes: Some(new), ..AccountChange::default() };
        let filter = AccountFilter { domains: Some(vec![domain.clone()]), ..AccountFilter::default() };
        // A pending domain has only the user of the sign-up, so one page is enough.
        let accounts = self.0.store.accounts().list(&filter, Page::new(Page::MAX_LIMIT, 0)).await?.items;
        for account in accounts.into_iter().filter(|account| account.quota_bytes == old) {
            self.0.store.accounts().update(&account.email, &change, self.0.clock.now()).await?;
            self.0.backend.provisioning.set_quota(&account.email, new).await.map_err(Unavailable::from)?;
        }
        Ok(())
    }
}
