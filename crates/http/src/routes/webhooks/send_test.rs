//! `POST /webhooks/{id}/test`.

use axum::extract::State;
use mailapi_service::webhooks::TestResult;
use serde::Serialize;
use utoipa::ToSchema;

use super::webhook_in;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::state::HttpState;

/// Result of a test message.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "success": true, "id": "evt_01jdb6m4v0e9x8d2k5t7w3qz1r", "delivered": true, "status": 204, "duration_ms": 42,
    "error": null, "answer": ""
}))]
pub(crate) struct WebhookTested {
    /// Always true.
    success: bool,
    /// Identifier of the message, in `webhook-id`.
    id: String,
    /// Whether the receiver answered with a status of 200 to 299.
    delivered: bool,
    /// HTTP status of the receiver; null without an answer. Users see it after the receiver has answered a challenge.
    #[schema(required)]
    status: Option<u16>,
    /// Milliseconds until the answer or the failure.
    duration_ms: u64,
    /// Why there was no answer; for admins only.
    #[schema(required)]
    error: Option<String>,
    /// Beginning of the answer, at most 1 KiB; for admins only.
    #[schema(required)]
    answer: Option<String>,
}

impl From<TestResult> for WebhookTested {
    fn from(result: TestResult) -> Self {
        Self {
            success: true,
            id: result.id.to_string(),
            delivered: result.delivered,
            status: result.status,
            duration_ms: u64::try_from(result.duration.as_millis()).unwrap_or(u64::MAX),
            error: result.error,
            answer: result.answer,
        }
    }
}

documented_errors!(Errors, documented, [AccessDenied, WebhookNotFound]);

/// Send a test message to a webhook
///
/// Sends one signed message of type `webhook.test`, even if the webhook is disabled. It is not repeated. The receiver
/// of a user's webhook that was registered as disabled gets a `webhook.challenge` instead, until it has answered one.
#[utoipa::path(post, path = "/webhooks/{id}/test", tag = "webhooks", operation_id = "test_webhook",
    params(("id" = i64, Path, description = "Webhook number.", example = 1)),
    responses((status = 200, description = "The result of the message.", body = WebhookTested), Errors))]
pub(crate) async fn send_test(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<WebhookTested>, ApiError> {
    let id = webhook_in(&path, &caller)?;
    Ok(Json(state.service().test_webhook(&caller, id).await?.into()))
}
