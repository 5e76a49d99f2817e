//! `GET /aliases`.

use mailapi_model::{Alias, DomainName, Listed, Page};
use mailapi_store::AliasFilter;

use super::AliasError;
use crate::{Caller, Service};

/// Filters for aliases; `None` means no filter.
#[derive(Debug, Clone, Default)]
pub struct AliasQuery {
    /// In this domain.
    pub domain: Option<DomainName>,
    /// With this text in the address or in a member's address.
    pub q: Option<String>,
}

impl Service {
    /// Returns aliases, newest first: all for an admin, else those that the caller may manage.
    ///
    /// # Errors
    /// See [`AliasError`].
    pub async fn list_aliases(
        &self,
        caller: &Caller,
        query: AliasQuery,
        page: Page,
    ) -> Result<Listed<Alias>, AliasError> {
        let AliasQuery { domain, q } = query;
        let domains = self.managed_domains(caller, domain)?;
        let filter = AliasFilter { domains, q, hide: self.hidden_addresses(caller) };
        Ok(self.0.store.aliases().list(&filter, page).await?)
    }
}
