//! `GET /users`.

use mailapi_model::{Denied, DomainName, EmailAddress, Listed, Page, Permission};
use mailapi_store::AccountFilter;

use super::{User, UserError};
use crate::{Caller, Service};

/// Filters for accounts; `None` means no filter.
#[derive(Debug, Clone, Default)]
pub struct UserQuery {
    /// In this domain.
    pub domain: Option<DomainName>,
    /// Enabled or disabled.
    pub active: Option<bool>,
    /// With this text in the address or the name.
    pub q: Option<String>,
}

impl Service {
    /// Returns accounts, newest first: all for an admin, else those that the caller may manage, without accounts
    /// of admins.
    ///
    /// # Errors
    /// See [`UserError`].
    pub async fn list_users(&self, caller: &Caller, query: UserQuery, page: Page) -> Result<Listed<User>, UserError> {
        let filter = AccountFilter {
            domains: self.managed_domains(caller, query.domain)?,
            active: query.active,
            q: query.q,
            hide: self.hidden_addresses(caller),
        };
        let Listed { total, items } = self.0.store.accounts().list(&filter, page).await?;
        Ok(Listed { total, items: self.with_quotas(items).await })
    }

    /// The domains to list; `None` means all. A caller without a domain to manage may not list at all.
    pub(crate) fn managed_domains(
        &self,
        caller: &Caller,
        asked: Option<DomainName>,
    ) -> Result<Option<Vec<DomainName>>, Denied> {
        if let Some(domain) = asked {
            return caller.grants.may_manage_users(&domain).map(|right| Some(vec![right.domain().clone()]));
        }
        if caller.grants.admin().is_ok() {
            return Ok(None);
        }
        let managed: Vec<DomainName> = caller.grants.domains_with(Permission::ManageUsers).cloned().collect();
        if managed.is_empty() { Err(Denied) } else { Ok(Some(managed)) }
    }

    /// The addresses that delegated callers do not see in lists: those of admins.
    pub(crate) fn hidden_addresses(&self, caller: &Caller) -> Vec<EmailAddress> {
        if caller.grants.admin().is_ok() { Vec::new() } else { self.0.settings.admins.iter().cloned().collect() }
    }
}
