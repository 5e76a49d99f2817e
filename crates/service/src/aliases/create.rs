//! `POST /aliases`.

use mailapi_model::{Alias, EmailAddress, MembersRule};
use mailapi_store::{AliasStored, StoreError};

use super::{AliasError, kept_elsewhere, leads_back};
use crate::caller::audit;
use crate::{Caller, Service, Unavailable};

/// A request for an alias.
#[derive(Debug, Clone)]
pub struct CreateAlias {
    /// The address; the local part `*` is the catch-all of the domain.
    pub address: EmailAddress,
    /// The addresses that receive its mail.
    pub members: Vec<EmailAddress>,
    /// Users who may send from it.
    pub senders: Vec<EmailAddress>,
    /// Whether it accepts mail.
    pub active: bool,
}

impl Service {
    /// Creates an alias.
    ///
    /// The account database is changed first; after a crash, [`Service::reconcile`] repairs the difference.
    ///
    /// # Errors
    /// See [`AliasError`].
    pub async fn create_alias(&self, caller: &Caller, new: CreateAlias) -> Result<Alias, AliasError> {
        self.may_manage_alias(caller, &new.address)?;
        if self.0.store.directory().is_some() {
            return Err(kept_elsewhere());
        }
        let CreateAlias { address, members, senders, active } = new;
        if self.0.store.domains().get(&address.domain()).await?.is_none() {
            return Err(AliasError::DomainNotFound);
        }
        let members = MembersRule::check(&address, &members)?;
        let senders = self.checked_senders(&address, &senders).await?;
        let new = Alias { address: address.clone(), members, senders, active, created_at: self.0.clock.now() };
        let by = caller.clone();
        self.with_address_lock(&address, async move |service: Self| service.add_alias(new, &by).await).await
    }

    async fn add_alias(&self, new: Alias, by: &Caller) -> Result<Alias, AliasError> {
        let stored = self.0.store.aliases().insert(&new).await;
        match stored {
            Err(StoreError::Reference) => return Err(AliasError::DomainNotFound),
            Err(error) => return Err(error.into()),
            Ok(AliasStored::Taken | AliasStored::Missing) => return Err(AliasError::Exists),
            Ok(AliasStored::Loop) => return Err(leads_back()),
            Ok(AliasStored::Stored) => self.changed(),
        }
        if let Err(error) = self.0.backend.provisioning.put_alias(&new).await {
            self.take_alias_back(&new.address).await;
            return Err(Unavailable::mailboxes(error).into());
        }
        audit!(by, alias = %new.address, members = new.members.len(), "alias created");
        Ok(new)
    }

    /// Removes an alias that the mail server does not have, so that the caller can repeat the request.
    async fn take_alias_back(&self, address: &EmailAddress) {
        if let Err(error) = self.0.store.aliases().delete(address, self.0.clock.now()).await {
            tracing::error!(
                alias = %address, %error,
                "could not remove an alias that the mail server does not have; the next start repairs it"
            );
        }
        self.changed();
    }
}
