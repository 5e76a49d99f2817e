//! `DELETE /users/{email}`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::UserManager;
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::routes::to_the_end;
use crate::state::HttpState;

/// The user is gone.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "success": true, "message": "The user was deleted.", "email": "ann@example.org" }))]
pub(crate) struct UserDeleted {
    /// Always true.
    success: bool,
    /// What happened.
    message: &'static str,
    /// The address that the user had.
    email: String,
}

documented_errors!(Errors, documented, [AccessDenied, UserNotFound, ImapError]);

/// Delete a user
///
/// For admins and for callers with `manage_users` on the domain; accounts of admins are for admins only. The user's
/// tokens, permissions and mail go too.
#[utoipa::path(delete, path = "/users/{email}", tag = "users", operation_id = "delete_user",
    params(("email" = String, Path, format = IdnEmail, description = "The user's address.",
        example = "ann@example.org")),
    responses((status = 200, description = "The user was deleted.", body = UserDeleted), Errors))]
pub(crate) async fn delete(
    State(state): State<HttpState>,
    UserManager { caller, email }: UserManager,
) -> Result<Json<UserDeleted>, ApiError> {
    let (service, shown) = (state.service().clone(), email.shown().to_owned());
    to_the_end(async move { service.delete_user(&caller, &email).await }).await??;
    Ok(Json(UserDeleted { success: true, message: "The user was deleted.", email: shown }))
}
