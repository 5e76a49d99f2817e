//! `POST /webhooks`.

use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::{DomainName, EmailAddress, Secret, WebhookSigning};
use mailapi_service::Caller as ServiceCaller;
use mailapi_service::webhooks::{CreateWebhook, Webhook};
use serde::Serialize;
use utoipa::ToSchema;

use super::WebhookInfo;
use super::shape::{ReceiverUrl, SigningName, TypeOrGroup, WebhookSecret};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::request_body::{AtLeastOne, request_body};
use crate::routes::to_the_end;
use crate::shape::ShortText;
use crate::state::HttpState;

request_body! {
    /// A webhook to register.
    pub(crate) struct CreateWebhookBody as "CreateWebhook" {
        /// URL of the receiver: `https`, at a public address or in `webhooks.allow_networks`. While `http.listen` is a
        /// loopback address, an admin may also register a receiver on this machine, over `http`. Redirects are not
        /// followed.
        url: ReceiverUrl,
        /// Event types to send, such as `message.delivered`, groups such as `message.*`, or `*`; at most 30.
        types: AtLeastOne<TypeOrGroup>,
        /// Only events of this domain. For admins.
        domain: Option<DomainName>,
        /// Only events of this mailbox. With a user token, it is always the token's own mailbox.
        mailbox: Option<EmailAddress>,
        /// Free text, at most 200 characters.
        description: Option<ShortText>,
        /// Kind of signature, `v1` by default.
        signing: Option<SigningName>,
        /// Secret of `v1`: `whsec_` and 24 to 64 bytes in base64. A random one by default.
        secret: Option<WebhookSecret>,
        /// Whether to send; true by default. The receiver of a user's disabled webhook must answer a challenge when the
        /// webhook is enabled.
        enabled: Option<bool>,
    }
    example { "url": "https://example.org/webhook", "types": ["message.*"] }
}

/// The new webhook.
#[derive(Serialize, ToSchema)]
pub(crate) struct WebhookCreated {
    /// Always true.
    success: bool,
    /// Secret that verifies signatures of `v1`; it is returned only once. Null with `v1a`.
    #[schema(required)]
    secret: Option<String>,
    /// The webhook.
    #[serde(flatten)]
    info: WebhookInfo,
}

impl WebhookCreated {
    /// Response with a new secret.
    pub(crate) fn new(webhook: Webhook, secret: Option<Secret<String>>, caller: &ServiceCaller) -> Self {
        Self { success: true, secret: secret.map(Secret::into_inner), info: WebhookInfo::of(webhook, caller) }
    }
}

documented_errors!(Errors, documented_with_body, [AccessDenied, DomainNotFound, UserNotFound]);

/// Register a webhook
///
/// The receiver gets events from now on, signed as Standard Webhooks specifies. Store the secret: it is returned only
/// once. With a user token, the webhook gets the `message.*` events of its own mailbox. The receiver must then answer a
/// message of type `webhook.challenge` with the text in `data.challenge`. To give the receiver the secret or the public
/// key first, register the webhook with `enabled: false`, and enable it later: that sends the message. A mailbox or an
/// admin token may have 10 webhooks, and a domain 100. A webhook sends events only while its author may read them.
#[utoipa::path(post, path = "/webhooks", tag = "webhooks", operation_id = "create_webhook",
    request_body = CreateWebhookBody,
    responses((status = 201, description = "The webhook was registered.", body = WebhookCreated), Errors))]
pub(crate) async fn create(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    body: JsonBody<CreateWebhookBody>,
) -> Result<(StatusCode, Json<WebhookCreated>), ApiError> {
    let body = body.read()?;
    let new = CreateWebhook {
        url: body.url,
        types: body.types,
        domain: body.domain,
        mailbox: body.mailbox,
        description: body.description.unwrap_or_default(),
        signing: body.signing.unwrap_or(WebhookSigning::V1),
        secret: body.secret,
        enabled: body.enabled.unwrap_or(true),
    };
    let (service, by) = (state.service().clone(), caller.clone());
    let (webhook, secret) = to_the_end(async move { service.create_webhook(&by, new).await }).await??;
    Ok((StatusCode::CREATED, Json(WebhookCreated::new(webhook, secret, &caller))))
}
