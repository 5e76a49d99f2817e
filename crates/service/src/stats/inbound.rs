//! What listeners tell of mail from outside.

use mailapi_store::InboundEvent;

use crate::{Service, Unavailable};

impl Service {
    /// Notes how mail from outside was received; the next roll-up counts it.
    ///
    /// # Errors
    /// [`Unavailable`]; nothing was noted then.
    pub async fn record_inbound(&self, events: &[InboundEvent]) -> Result<(), Unavailable> {
        Ok(self.0.store.stats().record_inbound(events).await?)
    }
}
