//! `DELETE /users/{email}/app-passwords/{id}`.

use axum::extract::State;
use mailapi_model::AppPasswordId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::error::{ApiError, ErrorCode, documented_errors};
use crate::routes::to_the_end;
use crate::routes::users::MailboxManager;
use crate::state::HttpState;

/// The app password was revoked.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "success": true, "message": "The app password was revoked.", "id": 1 }))]
pub(crate) struct AppPasswordRevoked {
    /// Always true.
    success: bool,
    /// Result in words.
    message: &'static str,
    /// App password number.
    id: i64,
}

documented_errors!(Errors, documented, [AccessDenied, UserNotFound, AppPasswordNotFound]);

/// Revoke an app password
///
/// For the user, for callers with `manage_users` on the domain, and for admins. Only the owner and admins can revoke app
/// passwords of admin accounts. The app password is deleted. It allows no further login, and open sessions end.
#[utoipa::path(delete, path = "/users/{email}/app-passwords/{id}", tag = "users", operation_id = "revoke_app_password",
    params(("email" = String, Path, format = IdnEmail, description = "User's address.", example = "alice@example.test"),
        ("id" = i64, Path, description = "App password number.", example = 1)),
    responses((status = 200, description = "The app password was revoked.", body = AppPasswordRevoked), Errors))]
pub(crate) async fn revoke(
    State(state): State<HttpState>,
    MailboxManager { caller, email, path }: MailboxManager,
) -> Result<Json<AppPasswordRevoked>, ApiError> {
    let id = path.digits("id").map(AppPasswordId).ok_or(ErrorCode::AppPasswordNotFound)?;
    let service = state.service().clone();
    to_the_end(async move { service.revoke_app_password(&caller, &email, id).await }).await??;
    Ok(Json(AppPasswordRevoked { success: true, message: "The app password was revoked.", id: id.0 }))
}
