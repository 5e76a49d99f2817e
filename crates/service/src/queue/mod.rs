//! The mail server's queue, for admins.

mod change;
mod get;
mod list;

pub use mailapi_backend::{QueueChange, QueueEntry, QueueError as QueueCause, QueueFilter, QueuedFor};
use mailapi_model::Denied;

/// The reason why the queue is not shown or changed.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The caller is not an admin.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// See [`QueueCause`].
    #[error(transparent)]
    Queue(#[from] QueueCause),
}
