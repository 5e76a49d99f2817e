//! `POST /webhooks/{id}/enable`.

use axum::extract::State;

use super::{WebhookFound, webhook_in};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::routes::to_the_end;
use crate::state::HttpState;

documented_errors!(Errors, documented, [AccessDenied, WebhookNotFound, ValidationError]);

/// Enable a webhook
///
/// The webhook resumes with the first event that it has not sent, as far as events are kept. A pause that the receiver
/// asked for ends. The receiver of a user's webhook that was registered as disabled must first answer a message of type
/// `webhook.challenge` with the text in `data.challenge`. If the author has lost the permission, the caller becomes the
/// author.
#[utoipa::path(post, path = "/webhooks/{id}/enable", tag = "webhooks", operation_id = "enable_webhook",
    params(("id" = i64, Path, description = "Webhook number.", example = 1)),
    responses((status = 200, description = "The enabled webhook.", body = WebhookFound), Errors))]
pub(crate) async fn enable(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<WebhookFound>, ApiError> {
    let id = webhook_in(&path, &caller)?;
    let (service, by) = (state.service().clone(), caller.clone());
    let webhook = to_the_end(async move { service.enable_webhook(&by, id).await }).await??;
    Ok(Json(WebhookFound::new(webhook, &caller)))
}
