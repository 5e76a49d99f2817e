//! Errors common to all operations.

use std::fmt::Display;
use std::io;

use mailapi_backend::{BufferError, FeedError, ProvisioningError};
use mailapi_store::StoreError;

use crate::mail::ComposeError;

/// A resource of the operation is unavailable or failed. The details are not for the caller.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The account database is unreachable; a later retry may succeed.
    #[error("{0}")]
    Database(StoreError),
    /// The external user database is unreachable, or one of the operator's queries fails; a later retry may succeed.
    #[error("the user database: {0}")]
    UserDatabase(StoreError),
    /// No disk space to buffer a large message; a later retry may succeed.
    #[error("no disk space for a large message: {0}")]
    Room(io::Error),
    /// The mail server is unreachable or temporarily failing.
    #[error("{0}")]
    Mailboxes(String),
    /// An unexpected error.
    #[error("{0}")]
    Unforeseen(String),
}

impl Unavailable {
    /// Wraps the mail server's error.
    pub(crate) fn mailboxes(error: impl Display) -> Self {
        Self::Mailboxes(error.to_string())
    }
}

impl From<BufferError> for Unavailable {
    fn from(error: BufferError) -> Self {
        Self::Room(error.into())
    }
}

impl From<ComposeError> for Unavailable {
    fn from(ComposeError(error): ComposeError) -> Self {
        Self::Room(error)
    }
}

impl From<StoreError> for Unavailable {
    fn from(error: StoreError) -> Self {
        if error.is_unavailable() { Self::Database(error) } else { Self::Unforeseen(error.to_string()) }
    }
}

impl From<ProvisioningError> for Unavailable {
    fn from(error: ProvisioningError) -> Self {
        Self::Unforeseen(error.to_string())
    }
}

impl From<FeedError> for Unavailable {
    fn from(error: FeedError) -> Self {
        Self::Unforeseen(error.to_string())
    }
}

/// Converts store errors into an operation's error through [`Unavailable`], so that `?` works.
macro_rules! store_errors_are_unavailable {
    ($($error:ty),+ $(,)?) => {
        $(impl From<mailapi_store::StoreError> for $error {
            fn from(error: mailapi_store::StoreError) -> Self {
                Self::Unavailable(error.into())
            }
        })+
    };
}

pub(crate) use store_errors_are_unavailable;
