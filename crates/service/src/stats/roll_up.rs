//! Updates the counts.

use mailapi_store::RolledUp;

use crate::{Service, Unavailable};

impl Service {
    /// Stores the reports of the listeners, and counts one batch of new changes; without changes it only checks.
    /// `serve` repeats it while there is more, and pauses for [`super::StatsLimits::roll_up_pause`] otherwise.
    ///
    /// # Errors
    /// [`Unavailable`]; nothing was counted, and the next run tries again.
    pub async fn roll_up_once(&self) -> Result<RolledUp, Unavailable> {
        self.write_inbound_once().await?;
        let done = self.0.store.stats().roll_up_once(self.stats_limits().roll_up).await?;
        Ok(RolledUp { more: done.more || self.has_unwritten_inbound(), ..done })
    }
}
