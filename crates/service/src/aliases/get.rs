//! `GET /aliases/{address}`.

use mailapi_model::{Alias, EmailAddress};

use super::AliasError;
use crate::{Caller, Service};

impl Service {
    /// Returns an alias.
    ///
    /// # Errors
    /// See [`AliasError`].
    pub async fn get_alias(&self, caller: &Caller, address: &EmailAddress) -> Result<Alias, AliasError> {
        self.may_manage_alias(caller, address)?;
        self.0.store.aliases().get(address).await?.ok_or(AliasError::NotFound)
    }
}
