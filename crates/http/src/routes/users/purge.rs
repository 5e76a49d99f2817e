//! `DELETE /users/{email}/purge`.

use axum::extract::State;
use mailapi_service::users::Purged;
use serde::Serialize;
use utoipa::ToSchema;

use super::UserManager;
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::routes::to_the_end;
use crate::state::HttpState;

/// The mailbox was purged.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
        "success": true, "message": "The mailbox was purged.", "folders": 4, "messages_removed": 17, "quota_used_bytes": 0
}))]
pub(crate) struct MailboxPurged {
    /// Always true.
    success: bool,
    /// Result in words.
    message: &'static str,
    /// Number of folders; they are kept.
    folders: u64,
    /// Number of deleted messages.
    messages_removed: u64,
    /// Always 0.
    quota_used_bytes: u64,
}

documented_errors!(Errors, documented, [AccessDenied, UserNotFound, ImapError]);

/// Purge a user's mail
///
/// For admins and for callers with `manage_users` on the domain. Only admins can purge admin accounts. Deletes all mail
/// permanently. The account and its folders are kept.
#[utoipa::path(delete, path = "/users/{email}/purge", tag = "users", operation_id = "purge_user",
    params(("email" = String, Path, format = IdnEmail, description = "User's address.", example = "alice@example.test")),
    responses((status = 200, description = "The mailbox was purged.", body = MailboxPurged), Errors))]
pub(crate) async fn purge(
    State(state): State<HttpState>,
    UserManager { caller, email }: UserManager,
) -> Result<Json<MailboxPurged>, ApiError> {
    let service = state.service().clone();
    let Purged { folders, messages } = to_the_end(async move { service.purge_user(&caller, &email).await }).await??;
    Ok(Json(MailboxPurged {
        success: true,
        message: "The mailbox was purged.",
        folders,
        messages_removed: messages,
        quota_used_bytes: 0,
    }))
}
