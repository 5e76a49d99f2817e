//! One file for each operation, in the folders of the contract's areas.

pub(crate) mod aliases;
pub(crate) mod auth;
pub(crate) mod domains;
pub(crate) mod events;
pub(crate) mod mail;
pub(crate) mod mailbox;
pub(crate) mod permissions;
pub(crate) mod queue;
pub(crate) mod stats;
pub(crate) mod tokens;
pub(crate) mod users;
pub(crate) mod webhooks;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tracing::Instrument;

use crate::error::ApiError;

/// Runs `work` to its end even if the client disconnects, so that a change in several steps is never left incomplete.
///
/// # Errors
/// `INTERNAL_ERROR` if the work panics.
pub async fn to_the_end<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T, ApiError> {
    let (caller, result) = oneshot::channel();
    // One type for all work: each type that tokio runs adds some 3 KB of its code to the program.
    let work: BoxFuture<'static, ()> = Box::pin(async move {
        // A client that disconnected does not wait for the result.
        let _ = caller.send(work.await);
    });
    let task = tokio::spawn(work.in_current_span());
    match result.await {
        Ok(result) => Ok(result),
        Err(lost) => Err(task.await.map_or_else(ApiError::internal, |()| ApiError::internal(lost))),
    }
}
