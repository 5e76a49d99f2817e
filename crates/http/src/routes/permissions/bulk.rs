//! `POST /permissions/bulk`.

use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::{DomainName, EmailAddress, Permission, Violations};
use mailapi_service::permissions::BulkGranted;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::request_body::{AtLeastOne, request_body};
use crate::routes::to_the_end;
use crate::shape::PermissionName;
use crate::state::HttpState;

request_body! {
    /// Permissions to grant to one user on one domain.
    pub(crate) struct GrantPermissions as "GrantPermissions" {
        /// Address of the user; not an admin.
        email: EmailAddress,
        /// Permission names: at least one.
        permissions: AtLeastOne<PermissionName>,
        /// Domain name.
        domain: DomainName,
    }
    example { "email": "alice@example.test", "permissions": ["manage_users", "view_stats"], "domain": "example.test" }
}

/// Granted and skipped permissions.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "success": true, "message": "1 granted, 1 skipped.", "granted": ["manage_users"], "skipped": ["view_stats"]
}))]
pub(crate) struct PermissionsGranted {
    /// Always true.
    success: bool,
    /// Number of granted and skipped permissions, in words.
    message: String,
    /// Newly granted permissions.
    #[schema(value_type = Vec<PermissionName>)]
    granted: Vec<&'static str>,
    /// Permissions that the user already had.
    #[schema(value_type = Vec<PermissionName>)]
    skipped: Vec<&'static str>,
}

impl From<BulkGranted> for PermissionsGranted {
    fn from(BulkGranted { granted, skipped }: BulkGranted) -> Self {
        let names = |permissions: Vec<Permission>| permissions.into_iter().map(Permission::as_str).collect();
        let message = format!("{} granted, {} skipped.", granted.len(), skipped.len());
        Self { success: true, message, granted: names(granted), skipped: names(skipped) }
    }
}

documented_errors!(Errors, documented_with_body, [AccessDenied, UserNotFound, DomainNotFound]);

/// Grant several permissions
///
/// For admins. Grants several permissions to one user on one domain. Permissions that the user already has are skipped.
/// If one name is unknown, no permission is granted.
#[utoipa::path(post, path = "/permissions/bulk", tag = "permissions", operation_id = "grant_permissions",
    request_body = GrantPermissions,
    responses((status = 201, description = "The permissions were granted.", body = PermissionsGranted), Errors))]
pub(crate) async fn bulk(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    body: JsonBody<GrantPermissions>,
) -> Result<(StatusCode, Json<PermissionsGranted>), ApiError> {
    let GrantPermissions { email, permissions, domain } = body.read()?;
    if permissions.is_empty() {
        return Err(Violations::of("permissions", "must name at least one").into());
    }
    let service = state.service().clone();
    let granted = async move { service.grant_permissions(&caller, &email, permissions, &domain).await };
    Ok((StatusCode::CREATED, Json(to_the_end(granted).await??.into())))
}
