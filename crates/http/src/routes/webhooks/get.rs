//! `GET /webhooks/{id}`.

use axum::extract::State;

use super::{WebhookFound, webhook_in};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::state::HttpState;

documented_errors!(Errors, documented, [AccessDenied, WebhookNotFound]);

/// Get a webhook
///
/// Admins see all webhooks; other callers see those that their mailbox registered. The secret is not returned.
#[utoipa::path(get, path = "/webhooks/{id}", tag = "webhooks", operation_id = "get_webhook",
    params(("id" = i64, Path, description = "Webhook number.", example = 1)),
    responses((status = 200, description = "The webhook.", body = WebhookFound), Errors))]
pub(crate) async fn get(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<WebhookFound>, ApiError> {
    let id = webhook_in(&path, &caller)?;
    Ok(Json(WebhookFound::new(state.service().get_webhook(&caller, id).await?, &caller)))
}
