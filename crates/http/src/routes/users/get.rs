//! `GET /users/{email}`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::{UserRecord, user_in};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::state::HttpState;

/// One user.
#[derive(Serialize, ToSchema)]
pub(crate) struct UserFound {
    /// Always true.
    pub(super) success: bool,
    /// User record.
    pub(super) user: UserRecord,
}

documented_errors!(Errors, documented, [AccessDenied, UserNotFound]);

/// Get a user
///
/// For admins and for callers with `manage_users` on the domain. Only admins can read admin accounts.
#[utoipa::path(get, path = "/users/{email}", tag = "users", operation_id = "get_user",
    params(("email" = String, Path, format = IdnEmail, description = "User's address.", example = "alice@example.test")),
    responses((status = 200, description = "The user.", body = UserFound), Errors))]
pub(crate) async fn get(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<UserFound>, ApiError> {
    let email = user_in(&path, &caller)?;
    let user = state.service().get_user(&caller, &email).await?;
    Ok(Json(UserFound { success: true, user: user.into() }))
}
