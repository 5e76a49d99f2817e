//! `GET /webhooks`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::WebhookInfo;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::query::{PageParameters, Query};
use crate::state::HttpState;

/// A page of webhooks.
#[derive(Serialize, ToSchema)]
pub(crate) struct WebhooksListed {
    /// Always true.
    success: bool,
    /// Total number of webhooks.
    total: u64,
    /// The `limit` that was applied.
    limit: u32,
    /// The `offset` that was applied.
    offset: u64,
    /// Webhooks, newest first.
    webhooks: Vec<WebhookInfo>,
}

documented_errors!(Errors, documented, [ValidationError]);

/// List webhooks
///
/// Returns webhooks, newest first, without secrets. Admins see all webhooks; other callers see those that their mailbox
/// registered.
#[utoipa::path(get, path = "/webhooks", tag = "webhooks", operation_id = "list_webhooks", params(PageParameters),
    responses((status = 200, description = "A page of webhooks.", body = WebhooksListed), Errors))]
pub(crate) async fn list(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    query: Query<PageParameters>,
) -> Result<Json<WebhooksListed>, ApiError> {
    let page = query.read()?;
    let listed = state.service().list_webhooks(&caller, page).await?;
    Ok(Json(WebhooksListed {
        success: true,
        total: listed.total,
        limit: page.limit(),
        offset: page.offset(),
        webhooks: listed.items.into_iter().map(|webhook| WebhookInfo::of(webhook, &caller)).collect(),
    }))
}
