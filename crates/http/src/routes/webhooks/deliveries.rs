//! `GET /webhooks/{id}/deliveries`.

use axum::extract::State;
use mailapi_service::webhooks::WebhookFailure;
use serde::Serialize;
use utoipa::ToSchema;

use super::webhook_in;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::query::{PageParameters, Query};
use crate::shape::Moment;
use crate::state::HttpState;

/// An event that the receiver did not get.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "cursor": "41", "event_id": "evt_01jdb6m4v0e9x8d2k5t7w3qz1r", "type": "message.delivered",
    "message_id": "67e55044-10b1-426f-9247-bb680e5fe0c8", "attempts": 2,
    "next_attempt_at": "2026-11-20T10:16:35.000Z", "last_attempt_at": "2026-11-20T10:15:35.000Z", "status": 500,
    "error": null, "answer": "Internal Server Error"
}))]
pub(crate) struct FailedDelivery {
    /// Position after the event in the log of events.
    cursor: String,
    /// Identifier of the event.
    event_id: String,
    /// Type of the event.
    #[serde(rename = "type")]
    event_type: &'static str,
    /// Message of the event; null if it has none.
    #[schema(required, format = "uuid")]
    message_id: Option<String>,
    /// Number of attempts. 0 while the event waits for an earlier one of the same message, and after a replay.
    attempts: u32,
    /// Time of the next attempt; null if the event was given up.
    #[schema(required)]
    next_attempt_at: Option<Moment>,
    /// Time of the latest attempt.
    #[schema(required)]
    last_attempt_at: Option<Moment>,
    /// HTTP status of the receiver at the latest attempt; null without an answer.
    #[schema(required)]
    status: Option<u16>,
    /// Why there was no answer; for admins only.
    #[schema(required)]
    error: Option<String>,
    /// Beginning of the answer, at most 1 KiB; for admins only.
    #[schema(required)]
    answer: Option<String>,
}

impl From<WebhookFailure> for FailedDelivery {
    fn from(failure: WebhookFailure) -> Self {
        let last = failure.last;
        Self {
            cursor: failure.number.to_string(),
            event_id: failure.event_id.to_string(),
            event_type: failure.event_type.as_str(),
            message_id: failure.message_id.map(|id| id.to_string()),
            attempts: failure.attempts,
            next_attempt_at: failure.next_try_at.map(Moment),
            last_attempt_at: last.as_ref().map(|last| last.at.into()),
            status: last.as_ref().and_then(|last| last.status),
            error: last.as_ref().and_then(|last| last.error.clone()),
            answer: last.and_then(|last| last.answer),
        }
    }
}

/// A page of events that the receiver did not get.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeliveriesListed {
    /// Always true.
    success: bool,
    /// Total number of these events.
    total: u64,
    /// The `limit` that was applied.
    limit: u32,
    /// The `offset` that was applied.
    offset: u64,
    /// Events, newest first.
    deliveries: Vec<FailedDelivery>,
}

documented_errors!(Errors, documented, [AccessDenied, WebhookNotFound, ValidationError]);

/// List failed deliveries of a webhook
///
/// Returns the events that the receiver did not get, newest first: those that are tried again, and those that were given
/// up. Delivered events are not listed.
#[utoipa::path(get, path = "/webhooks/{id}/deliveries", tag = "webhooks", operation_id = "list_webhook_deliveries",
    params(("id" = i64, Path, description = "Webhook number.", example = 1), PageParameters),
    responses((status = 200, description = "A page of events.", body = DeliveriesListed), Errors))]
pub(crate) async fn deliveries(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    query: Query<PageParameters>,
) -> Result<Json<DeliveriesListed>, ApiError> {
    let (id, page) = (webhook_in(&path, &caller)?, query.read()?);
    let listed = state.service().webhook_deliveries(&caller, id, page).await?;
    Ok(Json(DeliveriesListed {
        success: true,
        total: listed.total,
        limit: page.limit(),
        offset: page.offset(),
        deliveries: listed.items.into_iter().map(Into::into).collect(),
    }))
}
