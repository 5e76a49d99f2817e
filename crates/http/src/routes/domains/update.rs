//! `PUT /domains/{domain}`.

use axum::extract::State;
use mailapi_model::Violations;
use mailapi_service::domains::DomainChange;
use utoipa::ToSchema;

use super::DomainManager;
use super::get::DomainFound;
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::json::{JsonBody, Members};
use crate::routes::to_the_end;
use crate::shape::ShortText;
use crate::state::HttpState;

/// Changes to a domain. Absent members stay unchanged.
#[derive(ToSchema)]
#[schema(example = json!({ "active": false, "description": "Retired domain" }))]
#[expect(dead_code, reason = "describes the body in the document; the body is read member by member")]
pub(crate) struct UpdateDomain {
    /// Whether the domain can send mail. Only an admin can activate a domain pending approval.
    active: Option<bool>,
    /// Note for admins: one line of at most 200 characters; null clears it.
    #[schema(value_type = Option<ShortText>)]
    description: Option<String>,
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
    body: JsonBody,
) -> Result<Json<DomainFound>, ApiError> {
    let change = read(body.members)?;
    let service = state.service().clone();
    let domain = to_the_end(async move { service.update_domain(&caller, &name, change).await }).await??;
    Ok(Json(DomainFound { success: true, domain: domain.into() }))
}

fn read(mut members: Members) -> Result<DomainChange, Violations> {
    let mut violations = Violations::none();
    let active = members.flag("active", &mut violations);
    let description = members.change("description", &mut violations, Members::one_line);
    violations.or(Some(DomainChange { active, description }))
}
