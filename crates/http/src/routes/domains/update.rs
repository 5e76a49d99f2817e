//! `PUT /domains/{domain}`.

use axum::extract::State;
use mailapi_service::domains::DomainChange;

use super::DomainManager;
use super::get::DomainFound;
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::request_body::{Change, request_body};
use crate::routes::to_the_end;
use crate::shape::ShortText;
use crate::state::HttpState;

request_body! {
    /// Changes to a domain. Absent members stay unchanged.
    pub(crate) struct UpdateDomain as "UpdateDomain" {
        /// Whether the domain can send mail. Only an admin can activate a domain pending approval.
        active: Option<bool>,
        /// Note for admins: one line of at most 200 characters; null clears it.
        description: Change<ShortText>,
    }
    example { "active": false, "description": "Retired domain" }
}

documented_errors!(Errors, documented_with_body, [AccessDenied, DomainNotFound]);

/// Update a domain
///
/// For admins and for callers with `manage_domains` on the domain. An inactive domain cannot send mail; its mailboxes
/// still receive it.
#[utoipa::path(put, path = "/domains/{domain}", tag = "domains", operation_id = "update_domain",
    params(("domain" = String, Path, format = IdnHostname, description = "Domain name.", example = "example.test")),
    request_body = UpdateDomain,
    responses((status = 200, description = "The updated domain.", body = DomainFound), Errors))]
pub(crate) async fn update(
    State(state): State<HttpState>,
    DomainManager { caller, name }: DomainManager,
    body: JsonBody<UpdateDomain>,
) -> Result<Json<DomainFound>, ApiError> {
    let UpdateDomain { active, description } = body.read()?;
    let change = DomainChange { active, description };
    let service = state.service().clone();
    let domain = to_the_end(async move { service.update_domain(&caller, &name, change).await }).await??;
    Ok(Json(DomainFound { success: true, domain: domain.into() }))
}
