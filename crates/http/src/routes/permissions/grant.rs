//! `POST /permissions`.

use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::{DomainName, EmailAddress, Permission, Violations};
use serde::Serialize;
use utoipa::ToSchema;

use super::{PermissionBody, PermissionName};
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::json::{JsonBody, Members};
use crate::routes::to_the_end;
use crate::state::HttpState;

/// A permission to grant.
#[derive(ToSchema)]
#[schema(example = json!({ "email": "alice@example.test", "permission": "manage_users", "domain": "example.test" }))]
#[expect(dead_code, reason = "describes the body in the document; the body is read member by member")]
pub(crate) struct GrantPermission {
    /// Address of the user; not an admin.
    #[schema(format = IdnEmail)]
    email: String,
    /// Permission name.
    permission: PermissionName,
    /// Domain name.
    #[schema(format = IdnHostname)]
    domain: String,
}

/// The granted permission.
#[derive(Serialize, ToSchema)]
pub(crate) struct PermissionGranted {
    /// Always true.
    success: bool,
    /// The granted permission.
    permission: PermissionBody,
}

documented_errors!(Errors, documented_with_body, [AccessDenied, UserNotFound, DomainNotFound, PermissionExists]);

/// Grant a permission
///
/// For admins. The permission takes effect with the user's next request.
#[utoipa::path(post, path = "/permissions", tag = "permissions", operation_id = "grant_permission",
    request_body = GrantPermission,
    responses((status = 201, description = "The permission was granted.", body = PermissionGranted), Errors))]
pub(crate) async fn grant(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    body: JsonBody,
) -> Result<(StatusCode, Json<PermissionGranted>), ApiError> {
    let (email, permission, domain) = read(body.members)?;
    let service = state.service().clone();
    let granted = async move { service.grant_permission(&caller, &email, permission, &domain).await };
    let permission = to_the_end(granted).await??.into();
    Ok((StatusCode::CREATED, Json(PermissionGranted { success: true, permission })))
}

fn read(mut members: Members) -> Result<(EmailAddress, Permission, DomainName), Violations> {
    let mut violations = Violations::none();
    let email = members.required_parsed("email", &mut violations);
    let permission = members.required_parsed("permission", &mut violations);
    let domain = members.required_parsed("domain", &mut violations);
    let ((email, permission), domain) = violations.or(email.zip(permission).zip(domain))?;
    Ok((email, permission, domain))
}
