//! `GET /users/me`.

use axum::extract::State;

use super::get::UserFound;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::state::HttpState;

documented_errors!(Errors, documented, [UserNotFound]);

/// Get the current user
///
/// Returns the user that the caller's token is bound to. An admin's API token has no user (`USER_NOT_FOUND`).
#[utoipa::path(get, path = "/users/me", tag = "users", operation_id = "get_current_user",
    responses((status = 200, description = "The user.", body = UserFound), Errors))]
pub(crate) async fn me(State(state): State<HttpState>, Caller(caller): Caller) -> Result<Json<UserFound>, ApiError> {
    let user = state.service().current_user(&caller).await?;
    Ok(Json(UserFound { success: true, user: user.into() }))
}
