//! Visibility of counts by owner. Counts outlive a deleted account or domain. A later owner of the name sees them
//! from the hour of the new creation on; admins see all of them.

use std::collections::BTreeMap;
use std::time::Duration;

use mailapi_model::{DomainName, Timestamp};
use mailapi_store::{Hours, SentScope, Span};

use crate::{Caller, Service, Unavailable};

/// The hours that a caller sees for a name created at `made`.
pub(super) fn hours_since(caller: &Caller, made: Timestamp, hours: Hours) -> Hours {
    if caller.grants.admin().is_ok() { hours } else { hours.since(made) }
}

/// Scopes by their visible hours.
pub(super) type Seen = BTreeMap<Hours, Vec<SentScope>>;

impl Service {
    /// The visible hours of each scope.
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
            // Admins see all hours, so the creation time is not needed.
            return Ok(hours);
        }
        let made = match scope {
            SentScope::All => None,
            SentScope::Domain(domain) => self.domain_since(domain).await?,
            // Mail of earlier owners of the address is part of the domain's mail.
            SentScope::Address(address) if caller.grants.may_view_stats(&address.domain()).is_ok() => {
                self.domain_since(&address.domain()).await?
            }
            SentScope::Address(address) => match self.account_since(address).await? {
                Some(made) => Some(self.counted_since(address.as_str(), made).await?),
                None => None,
            },
        };
        // A name deleted meanwhile has no owner, so nothing of it is visible.
        Ok(made.map_or(Hours::NONE, |made| hours.since(made)))
    }

    async fn domain_since(&self, domain: &DomainName) -> Result<Option<Timestamp>, Unavailable> {
        match self.0.store.domains().get(domain).await? {
            Some(found) => Ok(Some(self.counted_since(domain.as_str(), found.created_at).await?)),
            None => Ok(None),
        }
    }

    /// The time from which the counts of a name created at `made` belong to its current owner alone.
    pub(super) async fn counted_since(&self, name: &str, made: Timestamp) -> Result<Timestamp, Unavailable> {
        let gone = self.0.store.stats().gone_at([name]).await?;
        Ok(own_since(made, gone.get(name).copied()))
    }
}

/// Counts are stored by the hour. If one owner was deleted and another created within the same hour, its counts
/// cannot be divided, so the hour belongs to neither.
pub(super) fn own_since(made: Timestamp, gone: Option<Timestamp>) -> Timestamp {
    const HOUR: Duration = Duration::from_secs(60 * 60);
    let hour = Span::Hour.begin_of(made);
    match gone {
        Some(gone) if Span::Hour.begin_of(gone) == hour => hour.plus(HOUR),
        _ => made,
    }
}
