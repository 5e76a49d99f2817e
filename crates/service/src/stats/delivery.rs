//! `GET /stats/delivery`.

use mailapi_store::SentCounts;

use super::sender::visible;
use super::{BreakdownEntry, GroupBy, Period, PeriodQuery, Sender, StatsError};
use crate::{Caller, Service};

/// Which mail a caller asks about.
#[derive(Debug, Clone, Default)]
pub struct DeliveryQuery {
    /// When it was sent.
    pub period: PeriodQuery,
    /// Only that of these senders.
    pub sender: Option<Sender>,
    /// How it is broken down.
    pub group_by: GroupBy,
}

/// What became of sent mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryStats {
    /// When it was sent.
    pub period: Period,
    /// All of it.
    pub summary: SentCounts,
    /// Its parts.
    pub breakdown: Vec<BreakdownEntry>,
}

impl Service {
    /// What became of the mail that the caller may see: an admin all, others what is sent from the domains where they
    /// have `view_stats`, and always what is sent from their own mailbox; not what an earlier owner of the name sent.
    ///
    /// # Errors
    /// See [`StatsError`]; [`StatsError::Denied`] only for a sender of whom the caller may see nothing.
    pub async fn delivery_stats(&self, caller: &Caller, query: DeliveryQuery) -> Result<DeliveryStats, StatsError> {
        let scopes = visible(&caller.grants, query.sender.as_ref())?;
        let (period, hours) = query.period.resolve(self.0.clock.now(), self.stats_limits(), query.group_by)?;
        let seen = self.seen_by(caller, scopes, hours).await?;
        let (summary, breakdown) = self.break_down(&seen, hours, query.group_by).await?;
        Ok(DeliveryStats { period, summary, breakdown })
    }
}
