//! The port to records by which an authority checks names.

use async_trait::async_trait;

/// Publishes texts at `_acme-challenge` below names (RFC 8555 section 8.4).
#[async_trait]
pub trait ChallengeRecords: Send + Sync {
    /// Returns whether records about all of these names can be published.
    async fn can_publish(&self, names: &[String]) -> bool;

    /// Publishes a text about a name, and waits until name servers answer it.
    ///
    /// # Errors
    /// Why it is not published.
    async fn publish(&self, name: &str, text: &str) -> Result<(), String>;

    /// Removes the text. A text that stays does no harm.
    async fn withdraw(&self, name: &str, text: &str);
}
