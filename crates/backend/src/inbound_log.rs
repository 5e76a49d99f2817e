//! What a door tells of mail from outside.

use mailapi_model::InboundEvent;

/// Counts mail from outside. The product implements it; nothing waits for it, and nothing depends on it but
/// statistics.
pub trait InboundLog: Send + Sync {
    /// Mail for one recipient was taken in or refused.
    fn note(&self, event: InboundEvent);
}
