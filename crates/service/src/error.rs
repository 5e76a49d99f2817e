//! What can go wrong in every operation.

use std::fmt::Display;
use std::io;

use mailapi_backend::{BufferError, FeedError, ProvisioningError};
use mailapi_store::StoreError;

use crate::mail::ComposeError;

/// Something that the operation needs cannot be had at the moment, or broke. Nothing of it is for the caller's eyes.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The account database cannot be reached: trying again later will help.
    #[error("the database is not available: {0}")]
    Database(StoreError),
    /// A large message cannot be held on the disk while it is on its way: trying again later will help.
    #[error("there is no room for a large message: {0}")]
    Room(io::Error),
    /// The mailbox server cannot be reached, or cannot work at the moment.
    #[error("{0}")]
    Mailboxes(String),
    /// Something unforeseen.
    #[error("{0}")]
    Unforeseen(String),
}

impl Unavailable {
    /// What the mailbox server said, or why it said nothing.
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

/// Lets `?` turn a store's error into an operation's own error through [`Unavailable`].
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
