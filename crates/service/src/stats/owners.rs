//! Counts outlive the account or the domain that is deleted. Whoever has its name later sees those from the hour on in
//! which it was made again; admins see all of them.

use std::collections::BTreeMap;

use mailapi_model::{DomainName, Timestamp};
use mailapi_store::{Hours, SentScope};

use crate::{Caller, Service, Unavailable};

/// What of these hours a caller sees of a name that was made at this moment.
pub(super) fn hours_since(caller: &Caller, made: Timestamp, hours: Hours) -> Hours {
    if caller.grants.admin().is_ok() { hours } else { hours.since(made) }
}

/// Scopes, by the hours that they are read for.
pub(super) type Seen = BTreeMap<Hours, Vec<SentScope>>;

impl Service {
    /// What of these hours a caller sees of each scope.
    pub(super) async fn seen_by(
        &self,
        caller: &Caller,
        scopes: Vec<SentScope>,
        hours: Hours,
    ) -> Result<Seen, Unavailable> {
        let mut seen = Seen::new();
        for scope in scopes {
            let hours = self.hours_seen_by(caller, &scope, hours).await?;
            seen.entry(hours).or_default().push(scope);
        }
        Ok(seen)
    }

    async fn hours_seen_by(&self, caller: &Caller, scope: &SentScope, hours: Hours) -> Result<Hours, Unavailable> {
        if caller.grants.admin().is_ok() {
            // Whenever it was made, so nobody looks.
            return Ok(hours);
        }
        let made = match scope {
            SentScope::All => None,
            SentScope::Domain(domain) => self.domain_since(domain).await?,
            // Who was there before belongs to what the domain has sent.
            SentScope::Address(address) if caller.grants.may_view_stats(&address.domain()).is_ok() => {
                self.domain_since(&address.domain()).await?
            }
            SentScope::Address(address) => self.account_since(address).await?,
        };
        // What is gone meanwhile has no owner who could see anything of it.
        Ok(made.map_or(Hours::NONE, |made| hours.since(made)))
    }

    async fn domain_since(&self, domain: &DomainName) -> Result<Option<Timestamp>, Unavailable> {
        Ok(self.0.store.domains().get(domain).await?.map(|domain| domain.created_at))
    }
}
