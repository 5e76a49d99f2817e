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

/// Runs `work` to its end even if the client disconnects, so that a change in several steps is never left incomplete.
///
/// # Errors
/// `INTERNAL_ERROR` if the work panics.
pub async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, crate::error::ApiError> {
    use tracing::Instrument;
    tokio::spawn(work.in_current_span()).await.map_err(crate::error::ApiError::internal)
}
