//! The port to records by which others know the key of the listeners (DANE).

use async_trait::async_trait;
use mailapi_model::KeyPublication;

/// Keeps the TLSA records of the listeners' keys, where there are some.
#[async_trait]
pub trait KeyRecords: Send + Sync {
    /// Brings published records up to date as far as possible, and returns what DNS has of the keys.
    async fn keep(&self) -> KeyPublication;
}
