//! `PUT /webhooks/{id}`.

use axum::extract::State;
use mailapi_model::{DomainName, EmailAddress};
use mailapi_service::webhooks::{FixedMembers, UpdateWebhook};

use super::shape::{ReceiverUrl, SigningName, TypeOrGroup, WebhookSecret};
use super::{WebhookFound, webhook_in};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::path::PathParameters;
use crate::request_body::{AtLeastOne, Change, request_body};
use crate::routes::to_the_end;
use crate::shape::ShortText;
use crate::state::HttpState;

request_body! {
    /// Changes to a webhook. Absent members stay unchanged.
    pub(crate) struct UpdateWebhookBody as "UpdateWebhook" {
        /// URL of the receiver, which is checked as for a new webhook.
        url: Option<ReceiverUrl>,
        /// Event types and groups of types; they apply to all events that were not attempted yet.
        types: Option<AtLeastOne<TypeOrGroup>>,
        /// Free text, at most 200 characters.
        description: Option<ShortText>,
        /// Whether to send. A webhook that is enabled again resumes with the first event that it has not sent.
        enabled: Option<bool>,
        /// Cannot be changed; only the current value is accepted.
        domain: Change<DomainName>,
        /// Cannot be changed; only the current value is accepted.
        mailbox: Change<EmailAddress>,
        /// Cannot be changed; only the current value is accepted.
        signing: Option<SigningName>,
        /// Not accepted; `POST /webhooks/{id}/rotate` replaces the secret.
        secret: Option<WebhookSecret>,
    }
    example { "description": "Shop", "enabled": false }
}

documented_errors!(Errors, documented_with_body, [AccessDenied, WebhookNotFound]);

/// Update a webhook
///
/// Admins may change all webhooks; other callers may change those that their mailbox registered.
#[utoipa::path(put, path = "/webhooks/{id}", tag = "webhooks", operation_id = "update_webhook",
    request_body = UpdateWebhookBody,
    params(("id" = i64, Path, description = "Webhook number.", example = 1)),
    responses((status = 200, description = "The updated webhook.", body = WebhookFound), Errors))]
pub(crate) async fn update(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    body: JsonBody<UpdateWebhookBody>,
) -> Result<Json<WebhookFound>, ApiError> {
    let id = webhook_in(&path, &caller)?;
    let UpdateWebhookBody { url, types, description, enabled, domain, mailbox, signing, secret } = body.read()?;
    let fixed = FixedMembers { domain, mailbox, signing, has_secret: secret.is_some() };
    let change = UpdateWebhook { url, types, description, enabled, fixed };
    let (service, by) = (state.service().clone(), caller.clone());
    let webhook = to_the_end(async move { service.update_webhook(&by, id, change).await }).await??;
    Ok(Json(WebhookFound::new(webhook, &caller)))
}
