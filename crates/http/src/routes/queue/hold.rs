//! `POST /queue/{queue_id}/hold`.

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
    [AccessDenied, QueueMessageNotFound, QueueMessageBusy, QueueUnsupported, QueueUnavailable]
);

/// Hold a queued message
///
/// For admins. Starts no further attempt until the message is released; it does not expire meanwhile. The built-in mail
/// server lets an attempt in progress finish. In front of Postfix, a message that is being delivered cannot be held.
#[utoipa::path(post, path = "/queue/{queue_id}/hold", tag = "queue", operation_id = "hold_queued_message",
    params(("queue_id" = String, Path, description = "Queue identifier.", example = "1M82V7MR3Q2M9XKD")),
    responses((status = 200, description = "The message is on hold.", body = QueueChanged), Errors))]
pub(crate) async fn hold(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
) -> Result<Json<QueueChanged>, ApiError> {
    changed(state, caller, &path, QueueChange::Hold, "The message is on hold.").await
}
