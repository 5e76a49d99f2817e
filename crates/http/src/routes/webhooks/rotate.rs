//! `POST /webhooks/{id}/rotate`.

use axum::extract::State;

use super::create::WebhookCreated;
use super::webhook_in;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::routes::to_the_end;
use crate::state::HttpState;

documented_errors!(Errors, documented, [AccessDenied, WebhookNotFound]);

/// Replace the key of a webhook
///
/// Generates a new key. For 24 hours, messages have a signature of the new key and one of the former key. The secret of
/// `v1` is returned only once.
#[utoipa::path(post, path = "/webhooks/{id}/rotate", tag = "webhooks", operation_id = "rotate_webhook",
    params(("id" = i64, Path, description = "Webhook number.", example = 1)),
    responses((status = 200, description = "The webhook with its new secret.", body = WebhookCreated), Errors))]
pub(crate) async fn rotate(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<WebhookCreated>, ApiError> {
    let id = webhook_in(&path, &caller)?;
    let (service, by) = (state.service().clone(), caller.clone());
    let (webhook, secret) = to_the_end(async move { service.rotate_webhook(&by, id).await }).await??;
    Ok(Json(WebhookCreated::new(webhook, secret, &caller)))
}
