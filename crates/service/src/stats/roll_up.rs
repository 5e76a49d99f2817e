//! Keeping the counts up to date.

use mailapi_store::RolledUp;

use crate::{Service, Unavailable};

impl Service {
    /// One step: writes down what the doors have told, and counts changes that are not counted yet. When there are none it only looks. `serve` takes steps while
    /// there is more, and rests for [`super::StatsLimits::roll_up_pause`] when there is not.
    ///
    /// # Errors
    /// [`Unavailable`]; nothing was counted then, and the next step tries again.
    pub async fn roll_up_once(&self) -> Result<RolledUp, Unavailable> {
        self.write_inbound_once().await?;
        Ok(self.0.store.stats().roll_up_once(self.stats_limits().roll_up).await?)
    }
}
