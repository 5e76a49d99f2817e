//! `GET /stats/users/{email}`.

use mailapi_model::EmailAddress;

use super::sender::visible;
use super::{DeliveryStats, GroupBy, PeriodQuery, Sender, StatsError};
use crate::{Caller, Service};

impl Service {
    /// Returns statistics on mail sent from the address of an account: to its owner, to callers with `view_stats`
    /// on its domain, and to admins.
    ///
    /// # Errors
    /// See [`StatsError`].
    pub async fn user_stats(
        &self,
        caller: &Caller,
        email: &EmailAddress,
        period: PeriodQuery,
        group_by: GroupBy,
    ) -> Result<DeliveryStats, StatsError> {
        let scopes = visible(&caller.grants, Some(&Sender::Address(email.clone())))?;
        let (period, hours) = period.resolve(self.0.clock.now(), self.stats_limits(), group_by)?;
        self.0.store.accounts().get(email).await?.ok_or(StatsError::UserNotFound)?;
        let seen = self.seen_by(caller, scopes, hours).await?;
        let (summary, breakdown) = self.break_down(&seen, hours, group_by).await?;
        Ok(DeliveryStats { period, summary, breakdown })
    }
}
