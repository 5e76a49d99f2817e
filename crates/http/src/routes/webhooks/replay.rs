//! `POST /webhooks/{id}/replay`.

use axum::extract::State;
use mailapi_service::webhooks::{Replay, ReplayedEvents};
use serde::Serialize;
use utoipa::ToSchema;

use super::shape::{Cursor, ReplayedName};
use super::webhook_in;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::path::PathParameters;
use crate::request_body::request_body;
use crate::routes::to_the_end;
use crate::state::HttpState;

request_body! {
    /// The events to send again.
    pub(crate) struct ReplayBody as "ReplayWebhook" {
        /// Send events after this position, which `GET /events` returned as `cursor`; `0` is the beginning. A
        /// cursor of another log is refused.
        after: Cursor,
        /// Send events up to this position; only with `failed`. By default, up to the last event that was attempted.
        before: Option<Cursor>,
        /// `failed`: events that the receiver did not get; `all`: every event that the webhook selects. `failed` by
        /// default.
        only: Option<ReplayedName>,
    }
    example { "after": "0", "only": "failed" }
}

/// Events are sent again.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "success": true, "message": "The events are sent again.", "count": 3 }))]
pub(crate) struct Replayed {
    /// Always true.
    success: bool,
    /// Result in words.
    message: &'static str,
    /// Number of failed events that are sent again; null with `all`.
    #[schema(required)]
    count: Option<u64>,
}

documented_errors!(Errors, documented_with_body, [AccessDenied, WebhookNotFound]);

/// Send events of a webhook again
///
/// The events have the same identifiers as before, so receivers can ignore known ones. They are sent in the background.
#[utoipa::path(post, path = "/webhooks/{id}/replay", tag = "webhooks", operation_id = "replay_webhook",
    request_body = ReplayBody,
    params(("id" = i64, Path, description = "Webhook number.", example = 1)),
    responses((status = 200, description = "The events are sent again.", body = Replayed), Errors))]
pub(crate) async fn replay(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    body: JsonBody<ReplayBody>,
) -> Result<Json<Replayed>, ApiError> {
    let id = webhook_in(&path, &caller)?;
    let ReplayBody { after, before, only } = body.read()?;
    let replay = Replay { after, before, only: only.unwrap_or(ReplayedEvents::Failed) };
    let service = state.service().clone();
    let count = to_the_end(async move { service.replay_webhook(&caller, id, replay).await }).await??;
    Ok(Json(Replayed { success: true, message: "The events are sent again.", count }))
}
