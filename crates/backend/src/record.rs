//! The record of a submitted message in the account database.

use std::any::Any;

use async_trait::async_trait;

use crate::Accepted;

/// The record of one message. The caller creates it, and the backend stores it: only the backend can do both
/// in one transaction, or send the envelope meanwhile.
#[async_trait]
pub trait Record: Send + Sync {
    /// Returns whether the request may repeat an earlier one. Then nothing reaches the mail server before the
    /// record is stored.
    fn may_repeat(&self) -> bool;

    /// Stores the message as pending; the record is durable on return.
    async fn begin(&self) -> Result<(), RecordError>;

    /// Stores that the mail server has the message. If that fails, the message stays pending until it is
    /// looked up ([`crate::Submission::find`]).
    async fn submitted(&self, accepted: &Accepted);

    /// Returns a value that stores the record inside a transaction of the account database. A backend uses it
    /// if it recognizes the type and stores its mail in the same database. It then calls neither
    /// [`Record::begin`] nor [`Record::submitted`].
    fn enlist(&self) -> Option<Box<dyn Any + Send>>;
}

/// Why a record was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The request was recorded before.
    #[error("the request was recorded before")]
    Exists,
    /// The account database is unreachable; a later retry may succeed.
    #[error("{0}")]
    Unavailable(String),
    /// An unexpected error.
    #[error("{0}")]
    Unforeseen(String),
}

/// A record that is stored already, by the caller.
#[derive(Debug, Clone, Copy)]
pub struct Recorded;

#[async_trait]
impl Record for Recorded {
    fn may_repeat(&self) -> bool {
        false
    }

    async fn begin(&self) -> Result<(), RecordError> {
        Ok(())
    }

    async fn submitted(&self, _: &Accepted) {}

    fn enlist(&self) -> Option<Box<dyn Any + Send>> {
        None
    }
}
