//! Deletes old events.

use mailapi_model::Timestamp;

use crate::{Service, Unavailable};

/// Number of events per transaction: other writers wait for it.
const AT_ONCE: usize = 1000;

impl Service {
    /// Deletes events that are older than the setting allows; returns their number.
    pub(crate) async fn prune_events(&self, now: Timestamp) -> Result<u64, Unavailable> {
        let before = now.minus(self.0.settings.event_retention);
        let mut deleted = 0;
        loop {
            let step = self.0.store.events().prune(before, now, AT_ONCE).await?;
            deleted += step;
            if step < AT_ONCE as u64 {
                return Ok(deleted);
            }
        }
    }
}
