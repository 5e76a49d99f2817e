//! `POST /users/{email}/disable`.

use axum::extract::State;

use super::UserManager;
use super::get::UserFound;
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::routes::to_the_end;
use crate::state::HttpState;

documented_errors!(Errors, documented, [AccessDenied, UserNotFound]);

/// Disable a user
///
/// For admins and for callers with `manage_users` on the domain. Only admins can disable admin accounts. Ends all
/// sessions; the user cannot log in or use tokens. The mailbox still receives mail.
#[utoipa::path(post, path = "/users/{email}/disable", tag = "users", operation_id = "disable_user",
    params(("email" = String, Path, format = IdnEmail, description = "User's address.", example = "alice@example.test")),
    responses((status = 200, description = "The disabled user.", body = UserFound), Errors))]
pub(crate) async fn disable(
    State(state): State<HttpState>,
    UserManager { caller, email }: UserManager,
) -> Result<Json<UserFound>, ApiError> {
    let service = state.service().clone();
    let user = to_the_end(async move { service.disable_user(&caller, &email).await }).await??;
    Ok(Json(UserFound { success: true, user: user.into() }))
}
