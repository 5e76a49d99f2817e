//! `POST /queue/{queue_id}/cancel`.

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

/// Cancel a queued message
///
/// For admins. Removes the message from the queue: no further recipient gets it. Waiting recipients become `bounced`, and
/// the sender gets no notice. A message that is being delivered cannot be cancelled: hold it, and cancel it afterwards.
#[utoipa::path(post, path = "/queue/{queue_id}/cancel", tag = "queue", operation_id = "cancel_queued_message",
    params(("queue_id" = String, Path, description = "Queue identifier.", example = "1M82V7MR3Q2M9XKD")),
    responses((status = 200, description = "The message was cancelled.", body = QueueChanged), Errors))]
pub(crate) async fn cancel(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
) -> Result<Json<QueueChanged>, ApiError> {
    changed(state, caller, &path, QueueChange::Cancel, "The message was cancelled.").await
}
