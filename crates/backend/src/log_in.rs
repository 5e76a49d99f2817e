//! Who may log in at a backend's own listeners.

use async_trait::async_trait;
use mailapi_model::{Grants, SecretText};

/// Answers log-ins at SMTP submission and IMAP; the product implements it, so that the same lock-out and the same
/// rights hold at every door.
#[async_trait]
pub trait LogIn: Send + Sync {
    /// Checks a mailbox's address and password.
    ///
    /// # Errors
    /// [`LogInError::Refused`] for an unknown address, a wrong password and a disabled mailbox alike.
    async fn log_in(&self, user: &str, password: &SecretText) -> Result<Grants, LogInError>;
}

/// Why nobody was logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LogInError {
    /// Address and password do not fit.
    #[error("address or password is wrong")]
    Refused,
    /// Too many failures; the address is locked for a while.
    #[error("too many failed log-ins; try again later")]
    Locked,
    /// The accounts cannot be read at the moment.
    #[error("log-ins are not possible at the moment")]
    Unavailable,
}
