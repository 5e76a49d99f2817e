//! `GET /stats/domains`.

use std::collections::BTreeMap;

use mailapi_model::{Domain, DomainName, Listed, Page, Permission};
use mailapi_store::{DomainFilter, Hours, SentCounts};

use super::owners::{hours_since, own_since};
use super::{GroupBy, Period, PeriodQuery, StatsError};
use crate::{Caller, Service};

/// The delivery counts of one domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainDelivery {
    /// The domain.
    pub domain: DomainName,
    /// Mail sent from the domain.
    pub counts: SentCounts,
}

/// The delivery counts of several domains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainsStats {
    /// The period in which the mail was sent.
    pub period: Period,
    /// The domains.
    pub domains: Listed<DomainDelivery>,
}

impl Service {
    /// Returns the delivery counts of each visible domain, newest domain first: all for an admin, else those
    /// where the caller has `view_stats`.
    ///
    /// # Errors
    /// See [`StatsError`].
    pub async fn domains_stats(
        &self,
        caller: &Caller,
        period: PeriodQuery,
        page: Page,
    ) -> Result<DomainsStats, StatsError> {
        let (period, hours) = period.resolve(self.0.clock.now(), self.stats_limits(), GroupBy::Day)?;
        let delegated = || caller.grants.domains_with(Permission::ViewStats).cloned().collect();
        let only = if caller.grants.admin().is_ok() { None } else { Some(delegated()) };
        let listed = self.0.store.domains().list(&DomainFilter { only, pending: false }, page).await?;
        // Domains with the same visible hours are counted by one query.
        let mut seen: BTreeMap<Hours, Vec<DomainName>> = BTreeMap::new();
        let gone = self.0.store.stats().gone_at(listed.items.iter().map(|domain| domain.name.as_str())).await?;
        for Domain { name, created_at, .. } in &listed.items {
            let made = own_since(*created_at, gone.get(name.as_str()).copied());
            seen.entry(hours_since(caller, made, hours)).or_default().push(name.clone());
        }
        let mut counted = BTreeMap::new();
        for (hours, domains) in seen {
            counted.extend(self.0.store.stats().sent_by_domain(&domains, hours).await?);
        }
        let domains = listed.map(|Domain { name: domain, .. }| {
            let counts = counted.get(&domain).copied().unwrap_or_default();
            DomainDelivery { domain, counts }
        });
        Ok(DomainsStats { period, domains })
    }
}
