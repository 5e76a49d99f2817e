//! Webhooks.

pub(crate) mod create;
mod delete;
mod deliveries;
mod enable;
mod get;
mod list;
mod replay;
mod rotate;
mod send_test;
mod shape;
mod update;

use mailapi_model::{WebhookId, WebhookSigning};
use mailapi_service::Caller;
use mailapi_service::webhooks::{Webhook, WebhookError, public_key};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{ApiError, ErrorCode};
use crate::path::PathParameters;
use crate::router::{Routes, api_routes as routes};
use crate::shape::Moment;
use shape::{DisabledReason, SigningName};

/// Every operation of this area.
pub(crate) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list::list, create::create))
        .routes(routes!(get::get, update::update, delete::delete))
        .routes(routes!(send_test::send_test))
        .routes(routes!(enable::enable))
        .routes(routes!(rotate::rotate))
        .routes(routes!(deliveries::deliveries))
        .routes(routes!(replay::replay))
}

/// A webhook, without its secret.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": 1, "url": "https://example.org/webhook", "types": ["message.*"], "domain": null,
    "mailbox": "alice@example.test", "owner": "alice@example.test", "description": "Shop", "signing": "v1",
    "public_key": null, "enabled": true, "disabled_reason": null, "failing_since": null, "paused_until": null,
    "last_attempt_at": "2026-11-20T11:00:00.000Z", "last_success_at": "2026-11-20T11:00:00.000Z", "last_error": null,
    "created_at": "2026-11-20T10:15:30.123Z", "updated_at": "2026-11-20T10:15:30.123Z"
}))]
pub(crate) struct WebhookInfo {
    /// Webhook number.
    id: i64,
    /// URL of the receiver.
    url: String,
    /// Event types and groups of types that are sent.
    types: Vec<String>,
    /// Only events of this domain; null without this filter.
    #[schema(required)]
    domain: Option<String>,
    /// Only events of this mailbox; null without this filter.
    #[schema(required)]
    mailbox: Option<String>,
    /// User who owns the webhook; null for a webhook of admins.
    #[schema(required)]
    owner: Option<String>,
    /// Free text.
    description: String,
    /// Kind of signature.
    #[schema(value_type = SigningName)]
    signing: &'static str,
    /// With `v1a`: the public key that verifies signatures.
    #[schema(required)]
    public_key: Option<String>,
    /// Whether events are sent.
    enabled: bool,
    /// Why events are not sent; null while they are.
    #[schema(required, value_type = Option<DisabledReason>)]
    disabled_reason: Option<&'static str>,
    /// Time since which every attempt failed; null after a success.
    #[schema(required)]
    failing_since: Option<Moment>,
    /// Time until which nothing is sent, because the receiver answered 429 or 503.
    #[schema(required)]
    paused_until: Option<Moment>,
    /// Time of the latest attempt.
    #[schema(required)]
    last_attempt_at: Option<Moment>,
    /// Time of the latest successful attempt.
    #[schema(required)]
    last_success_at: Option<Moment>,
    /// Latest failure; null after a success, and for callers other than admins.
    #[schema(required)]
    last_error: Option<String>,
    /// Creation time.
    created_at: Moment,
    /// Time of the latest change by a request.
    updated_at: Moment,
}

impl WebhookInfo {
    /// The record as an admin sees it.
    pub(crate) fn for_admin(webhook: Webhook) -> Self {
        Self {
            public_key: public_key(&webhook).filter(|_| webhook.signing == WebhookSigning::V1a),
            id: webhook.id.0,
            url: webhook.url,
            types: webhook.types.iter().map(ToString::to_string).collect(),
            domain: webhook.domain.map(|domain| domain.shown().to_owned()),
            mailbox: webhook.mailbox.map(|mailbox| mailbox.shown().to_owned()),
            owner: webhook.author.user().map(|user| user.shown().to_owned()),
            description: webhook.description,
            signing: webhook.signing.as_str(),
            enabled: webhook.enabled,
            disabled_reason: webhook.disabled_because.map(|because| because.as_str()),
            failing_since: webhook.failing_since.map(Moment),
            paused_until: webhook.paused_until.map(Moment),
            last_attempt_at: webhook.last_attempt_at.map(Moment),
            last_success_at: webhook.last_success_at.map(Moment),
            last_error: webhook.last_error,
            created_at: webhook.created_at.into(),
            updated_at: webhook.updated_at.into(),
        }
    }

    /// The record as this caller sees it: only admins see the receiver's answers.
    fn of(webhook: Webhook, caller: &Caller) -> Self {
        let info = Self::for_admin(webhook);
        if caller.grants.admin().is_ok() { info } else { Self { last_error: None, ..info } }
    }
}

/// One webhook.
#[derive(Serialize, ToSchema)]
pub(crate) struct WebhookFound {
    /// Always true.
    success: bool,
    /// The webhook.
    #[serde(flatten)]
    info: WebhookInfo,
}

impl WebhookFound {
    fn new(webhook: Webhook, caller: &Caller) -> Self {
        Self { success: true, info: WebhookInfo::of(webhook, caller) }
    }
}

/// Webhook in the path. An invalid number is an unknown webhook, which only an admin may learn.
fn webhook_in(path: &PathParameters, caller: &Caller) -> Result<WebhookId, ApiError> {
    match path.digits("id") {
        Some(id) => Ok(WebhookId(id)),
        None => Err(caller.grants.admin().map_or_else(Into::into, |_| ErrorCode::WebhookNotFound.into())),
    }
}

impl From<WebhookError> for ApiError {
    fn from(error: WebhookError) -> Self {
        match error {
            WebhookError::Denied(denied) => denied.into(),
            WebhookError::NotFound => ErrorCode::WebhookNotFound.into(),
            WebhookError::DomainNotFound => ErrorCode::DomainNotFound.into(),
            WebhookError::UserNotFound => ErrorCode::UserNotFound.into(),
            WebhookError::Invalid(violations) => violations.into(),
            WebhookError::Unavailable(error) => error.into(),
        }
    }
}
