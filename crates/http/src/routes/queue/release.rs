//! `POST /queue/{queue_id}/release`.

use axum::extract::State;
use mailapi_service::queue::QueueChange;

use super::{QueueChanged, changed};
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::state::HttpState;

documented_errors!(Errors, documented, [AccessDenied, QueueMessageNotFound, QueueUnsupported, QueueUnavailable]);

/// Release a queued message
///
/// For admins. Ends the hold and makes the message due now. Does nothing to a message that is not on hold.
#[utoipa::path(post, path = "/queue/{queue_id}/release", tag = "queue", operation_id = "release_queued_message",
    params(("queue_id" = String, Path, description = "Queue identifier.", example = "1M82V7MR3Q2M9XKD")),
    responses((status = 200, description = "The message is not on hold.", body = QueueChanged), Errors))]
pub(crate) async fn release(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
) -> Result<Json<QueueChanged>, ApiError> {
    changed(state, caller, &path, QueueChange::Release, "The message is not on hold.").await
}
