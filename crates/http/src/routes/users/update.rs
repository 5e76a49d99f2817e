//! `PUT /users/{email}`.

use axum::extract::State;
use mailapi_model::AccountChange;
use mailapi_service::users::UpdateUser;

use super::UserManager;
use super::get::UserFound;
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::request_body::{Change, request_body};
use crate::routes::to_the_end;
use crate::shape::{NewPassword, ShortText};
use crate::state::HttpState;

request_body! {
    /// Changes to a user. Absent members stay unchanged.
    pub(crate) struct UpdateUserBody as "UpdateUser" {
        /// Display name: one line of at most 200 characters.
        name: Option<ShortText>,
        /// Mailbox quota in bytes; null and 0 mean unlimited.
        quota_bytes: Change<u64>,
        /// New password: at least 8 characters. Ends all sessions of the user.
        password: Option<NewPassword>,
    }
    example { "name": "Alice Smith", "quota_bytes": 1_000_000_000 }
}

documented_errors!(Errors, documented_with_body, [AccessDenied, UserNotFound]);

/// Update a user
///
/// For admins and for callers with `manage_users` on the domain. Only admins can update admin accounts.
#[utoipa::path(put, path = "/users/{email}", tag = "users", operation_id = "update_user",
    params(("email" = String, Path, format = IdnEmail, description = "User's address.", example = "alice@example.test")),
    request_body = UpdateUserBody,
    responses((status = 200, description = "The updated user.", body = UserFound), Errors))]
pub(crate) async fn update(
    State(state): State<HttpState>,
    UserManager { caller, email }: UserManager,
    body: JsonBody<UpdateUserBody>,
) -> Result<Json<UserFound>, ApiError> {
    let UpdateUserBody { name, quota_bytes, password } = body.read()?;
    let change = UpdateUser { record: AccountChange { name, quota_bytes, save_sent: None }, password };
    let service = state.service().clone();
    let user = to_the_end(async move { service.update_user(&caller, &email, change).await }).await??;
    Ok(Json(UserFound { success: true, user: user.into() }))
}
