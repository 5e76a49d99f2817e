//! `GET /stats/domain/{domain}`.

use mailapi_model::{Domain, DomainName};
use mailapi_store::{InboundCounts, SentCounts, SentScope, Span};

use super::breakdown::sum;
use super::owners::hours_since;
use super::{GroupBy, Period, PeriodQuery, StatsError};
use crate::{Caller, Service};

/// The number of recipients of mail to or from a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainCount {
    /// The domain.
    pub domain: DomainName,
    /// Number of recipients.
    pub count: u64,
}

/// Statistics on the mail of one domain, counted per recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainStats {
    /// The domain.
    pub domain: DomainName,
    /// The period in which the mail was sent or received.
    pub period: Period,
    /// Mail sent from the domain; the total is [`SentCounts::sent`].
    pub outbound: SentCounts,
    /// The domains with the most sent mail, in descending order.
    pub top_recipients: Vec<DomainCount>,
    /// Mail received for the domain from outside; the total is accepted plus rejected.
    pub inbound: InboundCounts,
    /// The domains with the most accepted mail, in descending order.
    pub top_senders: Vec<DomainCount>,
}

impl Service {
    /// Returns the statistics of a domain to admins, and to callers with `view_stats` on it.
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
        // Omit domains for which all recipients were refused.
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
