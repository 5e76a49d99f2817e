//! `POST /domains/{domain}/approve`.

use mailapi_model::{AccountChange, DkimAlgorithm, Domain, DomainName, Page};
use mailapi_store::AccountFilter;

use super::DomainError;
use crate::caller::audit;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Lets a domain in that waits for it: activates it, and gives it a DKIM key. One that was let in is activated and
    /// gets no key: its mail would be signed from now on with a key that nobody can find. Mailboxes with the quota of a
    /// sign-up get the one of every new user.
    ///
    /// # Errors
    /// See [`DomainError`].
    pub async fn approve_domain(&self, caller: &Caller, name: &DomainName) -> Result<Domain, DomainError> {
        caller.grants.admin()?;
        let (domain, by) = (name.clone(), caller.clone());
        self.in_turn_of_domain(name, async move |service: Self| service.let_in(&domain, &by).await).await
    }

    /// In the turn of the domain: what is let in is what was looked at.
    pub(super) async fn let_in(&self, name: &DomainName, by: &Caller) -> Result<Domain, DomainError> {
        let domain = self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)?;
        let first_key = match domain.approved {
            true => None,
            false => Some(self.with_fresh_selector(name, self.new_dkim_key(DkimAlgorithm::Rsa2048).await?).await?),
        };
        // First, since a repeated call lifts no quota once the domain is approved.
        if !domain.approved {
            self.lift_signup_quota(name).await?;
        }
        if !self.0.store.domains().approve(name, first_key.as_ref()).await? {
            return Err(DomainError::NotFound);
        }
        self.0.epoch.end();
        self.0.backend.provisioning.put_domain(name).await.map_err(Unavailable::from)?;
        audit!(by, domain = %name, "domain approved");
        self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)
    }

    /// Gives mailboxes that still have the quota of a sign-up that of every new user.
    async fn lift_signup_quota(&self, domain: &DomainName) -> Result<(), DomainError> {
        let (old, new) = (self.0.settings.signup_quota(), self.0.settings.default_quota());
        let change = AccountChange { name: None, quota_bytes: Some(new) };
        let filter = AccountFilter { domains: Some(vec![domain.clone()]), ..AccountFilter::default() };
        // A pending domain has the one user who signed it up.
        let accounts = self.0.store.accounts().list(&filter, Page::new(Page::MAX_LIMIT, 0)).await?.items;
        for account in accounts.into_iter().filter(|account| account.quota_bytes == old) {
            self.0.store.accounts().update(&account.email, &change, self.0.clock.now()).await?;
            self.0.backend.provisioning.set_quota(&account.email, new).await.map_err(Unavailable::from)?;
        }
        Ok(())
    }
}
