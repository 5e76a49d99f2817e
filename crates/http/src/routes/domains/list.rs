//! `GET /domains`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::DomainRecord;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::query::{PageParameters, Query};
use crate::state::HttpState;

/// A page of domains.
#[derive(Serialize, ToSchema)]
pub(crate) struct DomainsListed {
    /// Always true.
    success: bool,
    /// Total number of domains.
    total: u64,
    /// The `limit` that was applied.
    limit: u32,
    /// The `offset` that was applied.
    offset: u64,
    /// Domains, newest first.
    domains: Vec<DomainRecord>,
}

documented_errors!(Errors, documented, [ValidationError]);

/// List domains
///
/// Returns domains, newest first. Admins see all domains; other callers see those on which they have `manage_domains`.
#[utoipa::path(get, path = "/domains", tag = "domains", operation_id = "list_domains", params(PageParameters),
    responses((status = 200, description = "A page of domains.", body = DomainsListed), Errors))]
pub(crate) async fn list(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    query: Query<PageParameters>,
) -> Result<Json<DomainsListed>, ApiError> {
    let page = query.read()?;
    let listed = state.service().list_domains(&caller, page).await?;
    Ok(Json(DomainsListed {
        success: true,
        total: listed.total,
        limit: page.limit(),
        offset: page.offset(),
        domains: listed.items.into_iter().map(Into::into).collect(),
    }))
}
