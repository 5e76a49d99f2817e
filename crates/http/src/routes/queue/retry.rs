//! `POST /queue/{queue_id}/retry`.

use axum::extract::State;
use mailapi_service::queue::QueueChange;

use super::{QueueChanged, changed};
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::state::HttpState;

documented_errors!(
    Errors,
    documented,
    [AccessDenied, QueueMessageNotFound, QueueMessageHeld, QueueUnsupported, QueueUnavailable]
);

/// Retry a queued message
///
/// For admins. Makes all waiting recipients due now, whenever their next attempt was due. A message on hold is not
/// changed.
#[utoipa::path(post, path = "/queue/{queue_id}/retry", tag = "queue", operation_id = "retry_queued_message",
    params(("queue_id" = String, Path, description = "Queue identifier.", example = "1M82V7MR3Q2M9XKD")),
    responses((status = 200, description = "The message is due now.", body = QueueChanged), Errors))]
pub(crate) async fn retry(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
) -> Result<Json<QueueChanged>, ApiError> {
    changed(state, caller, &path, QueueChange::Retry, "The message is due now.").await
}
