//! `GET /stats/domain/{domain}`.

use mailapi_model::{Domain, DomainName};
use mailapi_store::{InboundCounts, SentCounts, SentScope, Span};

use super::breakdown::sum;
use super::owners::hours_since;
use super::{GroupBy, Period, PeriodQuery, StatsError};
use crate::{Caller, Service};

/// How much mail went to or came from a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainCount {
    /// The domain.
    pub domain: DomainName,
    /// How many recipients.
    pub count: u64,
}

/// The mail of one domain, counted per recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainStats {
    /// The domain.
    pub domain: DomainName,
    /// When it was sent or received.
    pub period: Period,
    /// What was sent from it; the total is [`SentCounts::sent`].
    pub outbound: SentCounts,
    /// The domains to which most was sent, the most first.
    pub top_recipients: Vec<DomainCount>,
    /// What came for it from outside; the total is all that was accepted and rejected.
    pub inbound: InboundCounts,
    /// The domains from which most was accepted, the most first.
    pub top_senders: Vec<DomainCount>,
}

impl Service {
    /// The mail of a domain: to admins, and to those who have `view_stats` there.
    ///
    /// # Errors
    /// See [`StatsError`].
    pub async fn domain_stats(
        &self,
        caller: &Caller,
        domain: &DomainName,
        period: PeriodQuery,
    ) -> Result<DomainStats, StatsError> {
        let right = caller.grants.may_view_stats(domain)?;
        let limits = self.stats_limits();
        let (period, hours) = period.resolve(self.0.clock.now(), limits, GroupBy::Day)?;
        let Domain { name: domain, created_at, .. } =
            self.0.store.domains().get(right.domain()).await?.ok_or(StatsError::DomainNotFound)?;
        let hours = hours_since(caller, self.counted_since(domain.as_str(), created_at).await?, hours);
        let (stats, scopes) = (self.0.store.stats(), [SentScope::Domain(domain.clone())]);
        let days = stats.sent_by_time(&scopes, hours, Span::Day).await?;
        let sent_to = stats.sent_to_domains(&scopes, hours, limits.ranked).await?;
        // A domain to which everything was refused was sent nothing.
        let sent_to = sent_to.into_iter().map(|(domain, counts)| (domain, counts.sent)).filter(|(_, sent)| *sent > 0);
        let received_from = stats.inbound_from_domains(&domain, hours, limits.ranked).await?;
        Ok(DomainStats {
            period,
            outbound: sum(days.values()),
            top_recipients: sent_to.map(DomainCount::from).collect(),
            inbound: stats.inbound(&domain, hours).await?,
            top_senders: received_from.into_iter().map(DomainCount::from).collect(),
            domain,
        })
    }
}

impl From<(DomainName, u64)> for DomainCount {
    fn from((domain, count): (DomainName, u64)) -> Self {
        Self { domain, count }
    }
}
