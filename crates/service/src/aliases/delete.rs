//! `DELETE /aliases/{address}`.

use mailapi_model::EmailAddress;

use super::AliasError;
use crate::caller::audit;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Deletes an alias.
    ///
    /// The mail server is changed first: it then refuses mail to the alias, and a repeated call finishes an interrupted
    /// deletion.
    ///
    /// # Errors
    /// See [`AliasError`].
    pub async fn delete_alias(&self, caller: &Caller, address: &EmailAddress) -> Result<(), AliasError> {
        self.may_manage_alias(caller, address)?;
        let (gone, by) = (address.clone(), caller.clone());
        self.with_address_lock(address, async move |service: Self| service.remove_alias(&gone, &by).await).await
    }

    async fn remove_alias(&self, address: &EmailAddress, by: &Caller) -> Result<(), AliasError> {
        if self.0.store.aliases().get(address).await?.is_none() {
            return Err(AliasError::NotFound);
        }
        self.0.backend.provisioning.remove_alias(address).await.map_err(Unavailable::mailboxes)?;
        if !self.0.store.aliases().delete(address, self.0.clock.now()).await? {
            return Err(AliasError::NotFound);
        }
        self.changed();
        audit!(by, alias = %address, "alias deleted");
        Ok(())
    }
}
