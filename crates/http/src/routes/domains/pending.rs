//! `GET /domains/pending`.

use axum::extract::State;
use mailapi_model::Domain;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::query::Query;
use crate::shape::{Moment, PageParameters};
use crate::state::HttpState;

/// A page of domains that wait for approval.
#[derive(Serialize, ToSchema)]
pub(crate) struct DomainsPending {
    /// Always true.
    success: bool,
    /// Domains of the whole list.
    total: u64,
    /// The limit of this page.
    limit: u32,
    /// How many domains come before this page.
    offset: u64,
    /// The domains, newest first.
    domains: Vec<PendingDomain>,
}

/// A domain that waits for approval.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "domain": "example.org", "active": false, "created": "2026-11-20T10:15:30.123Z",
    "creator_email": "ann@example.org"
}))]
struct PendingDomain {
    /// Its name.
    domain: String,
    /// Always false.
    active: bool,
    /// When it was signed up.
    created: Moment,
    /// Who signed it up.
    creator_email: String,
}

impl From<Domain> for PendingDomain {
    fn from(domain: Domain) -> Self {
        Self {
            domain: domain.name.shown().to_owned(),
            active: domain.active,
            created: domain.created_at.into(),
            // Only signing up makes domains that wait, and it notes by whom.
            creator_email: domain.creator_email.map_or_else(String::new, |email| email.shown().to_owned()),
        }
    }
}

documented_errors!(Errors, documented, [AccessDenied, ValidationError]);

/// List pending domains
///
/// For admins. Domains that were signed up and wait for approval, newest first.
#[utoipa::path(get, path = "/domains/pending", tag = "domains", operation_id = "list_pending_domains",
    params(PageParameters),
    responses((status = 200, description = "A page of pending domains.", body = DomainsPending), Errors))]
pub(crate) async fn pending(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    mut query: Query,
) -> Result<Json<DomainsPending>, ApiError> {
    let page = query.page();
    query.check()?;
    let listed = state.service().pending_domains(&caller, page).await?;
    Ok(Json(DomainsPending {
        success: true,
        total: listed.total,
        limit: page.limit(),
        offset: page.offset(),
        domains: listed.items.into_iter().map(Into::into).collect(),
    }))
}
