//! `POST /domains/{domain}/approve`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::domain_in;
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::routes::to_the_end;
use crate::state::HttpState;

/// The approved domain.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
        "success": true, "message": "The domain was approved.", "domain": "example.test", "active": true
}))]
pub(crate) struct DomainApproved {
    /// Always true.
    success: bool,
    /// Result in words.
    message: &'static str,
    /// Domain name.
    domain: String,
    /// Always true.
    active: bool,
}

documented_errors!(Errors, documented, [AccessDenied, DomainNotFound]);

/// Approve a domain
///
/// For admins. Activates the domain and creates its first DKIM key, unless it has one.
#[utoipa::path(post, path = "/domains/{domain}/approve", tag = "domains", operation_id = "approve_domain",
    params(("domain" = String, Path, format = IdnHostname, description = "Domain name.", example = "example.test")),
    responses((status = 200, description = "The domain was approved.", body = DomainApproved), Errors))]
pub(crate) async fn approve(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
) -> Result<Json<DomainApproved>, ApiError> {
    let name = domain_in(&path, &caller)?;
    let service = state.service().clone();
    let domain = to_the_end(async move { service.approve_domain(&caller, &name).await }).await??;
    Ok(Json(DomainApproved {
        success: true,
        message: "The domain was approved.",
        domain: domain.name.shown().to_owned(),
        active: domain.active,
    }))
}
