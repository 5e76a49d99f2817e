//! `GET /domains/pending`.

use axum::extract::State;
use mailapi_model::Domain;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::query::{PageParameters, Query};
use crate::shape::Moment;
use crate::state::HttpState;

/// A page of domains pending approval.
#[derive(Serialize, ToSchema)]
pub(crate) struct DomainsPending {
    /// Always true.
    success: bool,
    /// Total number of domains.
    total: u64,
    /// The `limit` that was applied.
    limit: u32,
    /// The `offset` that was applied.
    offset: u64,
    /// Domains, newest first.
    domains: Vec<PendingDomain>,
}

/// A domain pending approval.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
        "domain": "example.test", "active": false, "created": "2026-11-20T10:15:30.123Z",
        "creator_email": "alice@example.test"
}))]
struct PendingDomain {
    /// Domain name.
    domain: String,
    /// Always false.
    active: bool,
    /// Sign-up time.
    created: Moment,
    /// Address of the user who signed up.
    creator_email: String,
}

impl From<Domain> for PendingDomain {
    fn from(domain: Domain) -> Self {
        Self {
            domain: domain.name.shown().to_owned(),
            active: domain.active,
            created: domain.created_at.into(),
            // Pending domains come from sign-ups only, which store the creator.
            creator_email: domain.creator_email.map_or_else(String::new, |email| email.shown().to_owned()),
        }
    }
}

documented_errors!(Errors, documented, [AccessDenied, ValidationError]);

/// List pending domains
///
/// For admins. Returns the domains from sign-ups that are pending approval, newest first.
#[utoipa::path(get, path = "/domains/pending", tag = "domains", operation_id = "list_pending_domains",
    params(PageParameters),
    responses((status = 200, description = "A page of pending domains.", body = DomainsPending), Errors))]
pub(crate) async fn pending(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    query: Query<PageParameters>,
) -> Result<Json<DomainsPending>, ApiError> {
    let page = query.read()?;
    let listed = state.service().pending_domains(&caller, page).await?;
    Ok(Json(DomainsPending {
        success: true,
        total: listed.total,
        limit: page.limit(),
        offset: page.offset(),
        domains: listed.items.into_iter().map(Into::into).collect(),
    }))
}
