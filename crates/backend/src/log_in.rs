//! Authentication at a backend's own listeners.

use async_trait::async_trait;
use mailapi_model::{AppPasswordId, Denied, EmailAddress, Grants, SecretText, SendAs, Visitor};

use crate::Validator;

/// Authenticates users at SMTP submission and IMAP. The product implements it, so that the same permissions
/// apply on every protocol. It limits failed logins by mailbox and by client.
#[async_trait]
pub trait Login: Send + Sync {
    /// Checks a mailbox's address, and its password or one of its app passwords.
    ///
    /// # Errors
    /// [`LoginError::Refused`] for an unknown address, a wrong password and a disabled mailbox alike.
    async fn log_in(&self, user: &str, password: &SecretText, from: Visitor) -> Result<LoggedIn, LoginError>;

    /// Checks that the logged-in account is still allowed, and updates its grants. A listener calls this
    /// before each command; it is cheap while no account has changed.
    ///
    /// # Errors
    /// [`LoginError::Refused`] when the mailbox was disabled, deleted, or given another password since. After a login
    /// with an app password: when that one was revoked.
    async fn renew(&self, session: &mut LoggedIn) -> Result<(), LoginError>;

    /// Checks that a logged-in account may send as this address, by the same rule as the API.
    ///
    /// # Errors
    /// See [`SendAsError`].
    async fn may_send_as(&self, grants: &Grants, address: &EmailAddress) -> Result<SendAs, SendAsError>;

    /// Counts a message to these recipients against the daily limits of a logged-in mailbox. Without limits,
    /// every message is allowed.
    ///
    /// # Errors
    /// See [`SendLimitReached`]; the message is then not counted.
    async fn may_send_to(&self, _grants: &Grants, _recipients: &[EmailAddress]) -> Result<(), SendLimitReached> {
        Ok(())
    }
}

/// The mailbox has reached a daily limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendLimitReached {
    /// The limit of messages.
    #[error("the mailbox may send {0} messages a day (limits.messages_per_day)")]
    Messages(u32),
    /// The limit of different recipient addresses, which this message would exceed.
    #[error("the mailbox may send to {0} different addresses a day (limits.recipients_per_day)")]
    Recipients(u32),
}

/// Why a logged-in account may not send as an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendAsError {
    /// The account lacks the permission.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The accounts cannot be read at the moment.
    #[error("the right cannot be checked at the moment")]
    Unavailable,
}

/// A logged-in account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    /// What the account may do.
    pub grants: Grants,
    /// The validator of all accounts and permissions when the grants were read.
    pub accounts: Validator,
    /// The validator of the password of the login. It reveals nothing about the password.
    pub password: Validator,
    /// The app password of the login; `None` for the account's own password.
    pub app_password: Option<AppPasswordId>,
}

/// Why a login failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The address or the password is wrong.
    #[error("address or password is wrong")]
    Refused,
    /// Too many failures: logins to this mailbox, or from this client, are rejected for a while.
    #[error("too many failed logins; try again later")]
    Locked,
    /// The accounts cannot be read at the moment.
    #[error("logins are not possible at the moment")]
    Unavailable,
}
