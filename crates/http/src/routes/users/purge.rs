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

/// The mailbox is empty.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "success": true, "message": "The mailbox is empty.", "folders": 4, "messages_removed": 17, "quota_used_bytes": 0
}))]
pub(crate) struct MailboxPurged {
    /// Always true.
    success: bool,
    /// What happened.
    message: &'static str,
    /// How many folders the mailbox has; they stay.
    folders: u64,
    /// How many messages were removed.
    messages_removed: u64,
    /// Always 0.
    quota_used_bytes: u64,
}

documented_errors!(Errors, documented, [AccessDenied, UserNotFound, ImapError]);

/// Purge a user's mail
///
/// For admins and for callers with `manage_users` on the domain; accounts of admins are for admins only. All mail of
/// every folder is removed for good. The account and its folders stay.
#[utoipa::path(delete, path = "/users/{email}/purge", tag = "users", operation_id = "purge_user",
    params(("email" = String, Path, format = IdnEmail, description = "The user's address.",
        example = "ann@example.org")),
    responses((status = 200, description = "The mailbox is empty.", body = MailboxPurged), Errors))]
pub(crate) async fn purge(
    State(state): State<HttpState>,
    UserManager { caller, email }: UserManager,
) -> Result<Json<MailboxPurged>, ApiError> {
    let service = state.service().clone();
    let Purged { folders, messages } = to_the_end(async move { service.purge_user(&caller, &email).await }).await??;
    Ok(Json(MailboxPurged {
        success: true,
        message: "The mailbox is empty.",
        folders,
        messages_removed: messages,
        quota_used_bytes: 0,
    }))
}
