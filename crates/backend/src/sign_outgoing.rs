//! What happens to a message of a local author before it leaves.

use async_trait::async_trait;
use mailapi_model::{DomainName, Octets};

/// Answers a backend's own submission listener: may this domain send, and what is its signature. The product
/// implements it, so that mail from a mail client is treated like mail from the API.
#[async_trait]
pub trait SignOutgoing: Send + Sync {
    /// `message` (with CRLF line ends) with the domain's DKIM signature in front of it.
    ///
    /// # Errors
    /// [`SignError::NotAllowed`] when the domain may not send.
    async fn sign(&self, from: &DomainName, message: Octets) -> Result<Octets, SignError>;
}

/// Why a message may not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The author's domain is not one of ours, or not active.
    #[error("the sender's domain is not allowed to send")]
    NotAllowed,
    /// It cannot be found out, or the key does not sign, at the moment.
    #[error("the message cannot be signed at the moment")]
    Unavailable,
}
