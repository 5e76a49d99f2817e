//! Who may log in at a backend's own listeners.

use async_trait::async_trait;
use mailapi_model::{Denied, EmailAddress, Grants, SecretText, SendAs, Visitor};

/// Answers log-ins at SMTP submission and IMAP. The product implements it, so that the same rights apply at every door.
/// It limits wrong passwords by mailbox and by client.
#[async_trait]
pub trait Login: Send + Sync {
    /// Checks a mailbox's address and password.
    ///
    /// # Errors
    /// [`LoginError::Refused`] for an unknown address, a wrong password and a disabled mailbox alike.
    async fn log_in(&self, user: &str, password: &SecretText, from: Visitor) -> Result<LoggedIn, LoginError>;

    /// Asks again whether somebody who has logged in may still be here, and brings what they may do up to date. Cheap
    /// while no account has changed: a listener asks before each command.
    ///
    /// # Errors
    /// [`LoginError::Refused`] when the mailbox was disabled or deleted since, or has another password.
    async fn renew(&self, session: &mut LoggedIn) -> Result<(), LoginError>;

    /// Checks that a logged-in account may send as this address, by the same rule as the API.
    ///
    /// # Errors
    /// See [`SendAsError`].
    async fn may_send_as(&self, grants: &Grants, address: &EmailAddress) -> Result<SendAs, SendAsError>;

    /// Counts a message to these recipients against the daily limits of a logged-in mailbox. Without limits, every message
    /// is allowed.
    ///
    /// # Errors
    /// See [`SendLimitReached`]; the message is then not counted.
    async fn may_send_to(&self, _grants: &Grants, _recipients: &[EmailAddress]) -> Result<(), SendLimitReached> {
        Ok(())
    }
}

/// A mailbox may send no more today.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendLimitReached {
    /// The mailbox has sent so many messages.
    #[error("the mailbox may send {0} messages a day (limits.messages_per_day)")]
    Messages(u32),
    /// The message would exceed the number of addresses that the mailbox sends to.
    #[error("the mailbox may send to {0} different addresses a day (limits.recipients_per_day)")]
    Recipients(u32),
}

/// Why a logged-in account may not send as an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendAsError {
    /// The account lacks the right.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The accounts cannot be read at the moment.
    #[error("the right cannot be checked at the moment")]
    Unavailable,
}

/// Somebody who has logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    /// What they may do.
    pub grants: Grants,
    /// By what whoever let them in recognizes that nothing has changed since.
    pub mark: LoginMark,
}

/// The state of the accounts at a log-in. What is in it is the affair of whoever made it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoginMark {
    /// When the accounts were read.
    pub epoch: (u64, u64),
    /// Which password it was; nothing can be learned from it.
    pub password: u64,
}

/// Why nobody was logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// Address and password do not fit.
    #[error("address or password is wrong")]
    Refused,
    /// Too many failures: log-ins to this mailbox, or from this client, are refused for a while.
    #[error("too many failed log-ins; try again later")]
    Locked,
    /// The accounts cannot be read at the moment.
    #[error("log-ins are not possible at the moment")]
    Unavailable,
}
