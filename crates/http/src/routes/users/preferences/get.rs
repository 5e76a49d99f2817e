//! `GET /users/{email}/preferences`.

use axum::extract::State;

use super::PreferencesFound;
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::routes::users::MailboxManager;
use crate::state::HttpState;

documented_errors!(Errors, documented, [AccessDenied, UserNotFound]);

/// Get the preferences of a mailbox
///
/// For the user, for admins, and for callers with `manage_users` on the domain, except for admins' mailboxes.
#[utoipa::path(get, path = "/users/{email}/preferences", tag = "users", operation_id = "get_preferences",
    params(("email" = String, Path, format = IdnEmail, description = "User's address.", example = "alice@example.test")),
    responses((status = 200, description = "The preferences.", body = PreferencesFound), Errors))]
pub(crate) async fn get(
    State(state): State<HttpState>,
    MailboxManager { caller, email, .. }: MailboxManager,
) -> Result<Json<PreferencesFound>, ApiError> {
    let save_sent = state.service().get_preferences(&caller, &email).await?;
    Ok(Json(PreferencesFound::new(&email, save_sent)))
}
