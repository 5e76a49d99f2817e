//! `POST /users/{email}/enable`.

use axum::extract::State;

use super::UserManager;
use super::get::UserFound;
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::routes::to_the_end;
use crate::state::HttpState;

documented_errors!(Errors, documented, [AccessDenied, UserNotFound]);

/// Enable a user
///
/// For admins and for callers with `manage_users` on the domain. Only admins can enable admin accounts. The user can
/// log in and use tokens again; ended sessions are not restored.
#[utoipa::path(post, path = "/users/{email}/enable", tag = "users", operation_id = "enable_user",
    params(("email" = String, Path, format = IdnEmail, description = "User's address.", example = "alice@example.test")),
    responses((status = 200, description = "The enabled user.", body = UserFound), Errors))]
pub(crate) async fn enable(
    State(state): State<HttpState>,
    UserManager { caller, email }: UserManager,
) -> Result<Json<UserFound>, ApiError> {
    let service = state.service().clone();
    let user = to_the_end(async move { service.enable_user(&caller, &email).await }).await??;
    Ok(Json(UserFound { success: true, user: user.into() }))
}
