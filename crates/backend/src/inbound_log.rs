//! Statistics of incoming mail.

use mailapi_model::{InboundEvent, InboundRefusal};

/// Records incoming mail for statistics. The product implements it. Backends do not wait for it.
pub trait InboundLog: Send + Sync {
    /// Records that mail for one recipient was accepted or rejected.
    fn note(&self, event: InboundEvent);

    /// Records the details of a permanent refusal; [`InboundLog::note`] counts it.
    fn refused(&self, refusal: InboundRefusal) {
        let _ = refusal;
    }
}
