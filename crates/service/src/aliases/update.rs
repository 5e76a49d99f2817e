//! `PUT /aliases/{address}`.

use mailapi_model::{Alias, AliasChange, EmailAddress, MembersRule};
use mailapi_store::AliasStored;

use super::{AliasError, leads_back};
use crate::caller::audit;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Changes an alias.
    ///
    /// The account database is changed first; after a crash, [`Service::reconcile`] repairs the difference.
    ///
    /// # Errors
    /// See [`AliasError`].
    pub async fn update_alias(
        &self,
        caller: &Caller,
        address: &EmailAddress,
        change: AliasChange,
    ) -> Result<Alias, AliasError> {
        self.may_manage_alias(caller, address)?;
        if self.0.store.aliases().get(address).await?.is_none() {
            return Err(AliasError::NotFound);
        }
        let members = change.members.map(|members| MembersRule::check(address, &members)).transpose()?;
        let senders = match change.senders {
            Some(senders) => Some(self.checked_senders(address, &senders).await?),
            None => None,
        };
        let change = AliasChange { members, senders, active: change.active };
        let (changed, by) = (address.clone(), caller.clone());
        self.with_address_lock(address, async move |service: Self| service.change_alias(&changed, &change, &by).await)
            .await
    }

    async fn change_alias(
        &self,
        address: &EmailAddress,
        change: &AliasChange,
        by: &Caller,
    ) -> Result<Alias, AliasError> {
        match self.0.store.aliases().update(address, change, self.0.clock.now()).await? {
            AliasStored::Missing | AliasStored::Taken => return Err(AliasError::NotFound),
            AliasStored::Loop => return Err(leads_back()),
            AliasStored::Stored => self.changed(),
        }
        let alias = self.0.store.aliases().get(address).await?.ok_or(AliasError::NotFound)?;
        self.0.backend.provisioning.put_alias(&alias).await.map_err(Unavailable::mailboxes)?;
        audit!(by, alias = %address, members = alias.members.len(), active = alias.active, "alias changed");
        Ok(alias)
    }
}
