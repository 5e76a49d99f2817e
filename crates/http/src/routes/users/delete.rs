//! `DELETE /users/{email}`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::UserManager;
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::routes::to_the_end;
use crate::state::HttpState;

/// The user was deleted.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "success": true, "message": "The user was deleted.", "email": "alice@example.test" }))]
pub(crate) struct UserDeleted {
    /// Always true.
    success: bool,
    /// Result in words.
    message: &'static str,
    /// Address of the deleted user.
    email: String,
}

documented_errors!(Errors, documented, [AccessDenied, UserNotFound, ImapError]);

/// Delete a user
///
/// For admins and for callers with `manage_users` on the domain. Only admins can delete admin accounts. Deletes the
/// account with its tokens, permissions and mail.
#[utoipa::path(delete, path = "/users/{email}", tag = "users", operation_id = "delete_user",
    params(("email" = String, Path, format = IdnEmail, description = "User's address.", example = "alice@example.test")),
    responses((status = 200, description = "The user was deleted.", body = UserDeleted), Errors))]
pub(crate) async fn delete(
    State(state): State<HttpState>,
    UserManager { caller, email }: UserManager,
) -> Result<Json<UserDeleted>, ApiError> {
    let (service, shown) = (state.service().clone(), email.shown().to_owned());
    to_the_end(async move { service.delete_user(&caller, &email).await }).await??;
    Ok(Json(UserDeleted { success: true, message: "The user was deleted.", email: shown }))
}
