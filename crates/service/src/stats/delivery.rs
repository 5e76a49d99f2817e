//! `GET /stats/delivery`.

use mailapi_store::SentCounts;

use super::sender::visible;
use super::{BreakdownEntry, GroupBy, Period, PeriodQuery, Sender, StatsError};
use crate::{Caller, Service};

/// A query for delivery statistics.
#[derive(Debug, Clone, Default)]
pub struct DeliveryQuery {
    /// The period in which the mail was sent.
    pub period: PeriodQuery,
    /// Only mail of these senders.
    pub sender: Option<Sender>,
    /// The kind of buckets.
    pub group_by: GroupBy,
}

/// Statistics on the delivery of sent mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryStats {
    /// The period in which the mail was sent.
    pub period: Period,
    /// The totals.
    pub summary: SentCounts,
    /// The buckets.
    pub breakdown: Vec<BreakdownEntry>,
}

impl Service {
    /// Returns statistics on the mail visible to the caller. An admin sees all mail, others that of domains where they
    /// have `view_stats`, and of their own mailbox. Mail of an earlier owner of a name is excluded.
    ///
    /// # Errors
    /// See [`StatsError`]; [`StatsError::Denied`] only if none of the named sender's mail is visible to the caller.
    pub async fn delivery_stats(&self, caller: &Caller, query: DeliveryQuery) -> Result<DeliveryStats, StatsError> {
        let scopes = visible(&caller.grants, query.sender.as_ref())?;
        let (period, hours) = query.period.resolve(self.0.clock.now(), self.stats_limits(), query.group_by)?;
        let seen = self.seen_by(caller, scopes, hours).await?;
        let (summary, breakdown) = self.break_down(&seen, hours, query.group_by).await?;
        Ok(DeliveryStats { period, summary, breakdown })
    }
}
