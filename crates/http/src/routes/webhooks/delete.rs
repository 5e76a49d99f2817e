//! `DELETE /webhooks/{id}`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::webhook_in;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::routes::to_the_end;
use crate::state::HttpState;

/// The webhook was deleted.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "success": true, "message": "The webhook was deleted.", "id": 1 }))]
pub(crate) struct WebhookDeleted {
    /// Always true.
    success: bool,
    /// Result in words.
    message: &'static str,
    /// Webhook number.
    id: i64,
}

documented_errors!(Errors, documented, [AccessDenied, WebhookNotFound]);

/// Delete a webhook
///
/// Admins may delete all webhooks; other callers may delete those that their mailbox registered.
#[utoipa::path(delete, path = "/webhooks/{id}", tag = "webhooks", operation_id = "delete_webhook",
    params(("id" = i64, Path, description = "Webhook number.", example = 1)),
    responses((status = 200, description = "The webhook was deleted.", body = WebhookDeleted), Errors))]
pub(crate) async fn delete(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<WebhookDeleted>, ApiError> {
    let id = webhook_in(&path, &caller)?;
    let service = state.service().clone();
    to_the_end(async move { service.delete_webhook(&caller, id).await }).await??;
    Ok(Json(WebhookDeleted { success: true, message: "The webhook was deleted.", id: id.0 }))
}
