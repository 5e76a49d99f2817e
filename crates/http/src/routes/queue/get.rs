//! `GET /queue/{queue_id}`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::{QueuedMessageInfo, queue_id_in};
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::state::HttpState;

/// One message in the queue.
#[derive(Serialize, ToSchema)]
pub(crate) struct QueuedMessageFound {
    /// Always true.
    success: bool,
    /// The message.
    #[serde(flatten)]
    info: QueuedMessageInfo,
}

documented_errors!(Errors, documented, [AccessDenied, QueueMessageNotFound, QueueUnsupported, QueueUnavailable]);

/// Get a queued message
///
/// For admins. Returns a message that the mail server has not finished, with up to 1000 recipients.
#[utoipa::path(get, path = "/queue/{queue_id}", tag = "queue", operation_id = "get_queued_message",
    params(("queue_id" = String, Path, description = "Queue identifier.", example = "1M82V7MR3Q2M9XKD")),
    responses((status = 200, description = "The message.", body = QueuedMessageFound), Errors))]
pub(crate) async fn get(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
) -> Result<Json<QueuedMessageFound>, ApiError> {
    let entry = state.service().queued_message(&caller, &queue_id_in(&path)).await?;
    Ok(Json(QueuedMessageFound { success: true, info: entry.into() }))
}
