//! `POST /permissions`.

use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::{DomainName, EmailAddress};
use serde::Serialize;
use utoipa::ToSchema;

use super::PermissionBody;
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::request_body::request_body;
use crate::routes::to_the_end;
use crate::shape::PermissionName;
use crate::state::HttpState;

request_body! {
    /// A permission to grant.
    pub(crate) struct GrantPermission as "GrantPermission" {
        /// Address of the user; not an admin.
        email: EmailAddress,
        /// Permission name.
        permission: PermissionName,
        /// Domain name.
        domain: DomainName,
    }
    example { "email": "alice@example.test", "permission": "manage_users", "domain": "example.test" }
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
    body: JsonBody<GrantPermission>,
) -> Result<(StatusCode, Json<PermissionGranted>), ApiError> {
    let GrantPermission { email, permission, domain } = body.read()?;
    let service = state.service().clone();
    let granted = async move { service.grant_permission(&caller, &email, permission, &domain).await };
    let permission = to_the_end(granted).await??.into();
    Ok((StatusCode::CREATED, Json(PermissionGranted { success: true, permission })))
}
