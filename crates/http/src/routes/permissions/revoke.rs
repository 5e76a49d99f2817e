//! `DELETE /permissions/{id}`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::permission_in;
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::routes::to_the_end;
use crate::state::HttpState;

/// The permission was revoked.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "success": true, "message": "The permission was revoked.", "id": 1 }))]
pub(crate) struct PermissionRevoked {
    /// Always true.
    success: bool,
    /// Result in words.
    message: &'static str,
    /// Permission number.
    id: i64,
}

documented_errors!(Errors, documented, [AccessDenied, PermissionNotFound]);

/// Revoke a permission
///
/// For admins. Takes effect with the user's next request.
#[utoipa::path(delete, path = "/permissions/{id}", tag = "permissions", operation_id = "revoke_permission",
    params(("id" = i64, Path, description = "Permission number.", example = 1)),
    responses((status = 200, description = "The permission was revoked.", body = PermissionRevoked), Errors))]
pub(crate) async fn revoke(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
) -> Result<Json<PermissionRevoked>, ApiError> {
    let id = permission_in(&path)?;
    let service = state.service().clone();
    let revoked = to_the_end(async move { service.revoke_permission(&caller, id).await }).await??;
    Ok(Json(PermissionRevoked { success: true, message: "The permission was revoked.", id: revoked.id.0 }))
}
