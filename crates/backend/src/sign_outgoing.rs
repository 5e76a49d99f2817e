//! Signing of outgoing mail.

use async_trait::async_trait;
use mailapi_model::{Blob, DomainName};

/// Signs messages for a backend's own submission listener, if the domain may send. The product implements it,
/// so that mail clients and the API are treated alike.
#[async_trait]
pub trait SignOutgoing: Send + Sync {
    /// Returns `message` (with CRLF line ends) with the domain's DKIM signature prepended.
    ///
    /// # Errors
    /// [`SignError::NotAllowed`] when the domain may not send.
    async fn sign(&self, from: &DomainName, message: Blob) -> Result<Blob, SignError>;
}

/// Why a message cannot be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The author's domain does not exist here, or is not active.
    #[error("the sender's domain is not allowed to send")]
    NotAllowed,
    /// The accounts or the key are not available at the moment.
    #[error("the message cannot be signed at the moment")]
    Unavailable,
}
