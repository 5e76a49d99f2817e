//! `DELETE /mailbox/{email}/drafts/{uid}`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::DraftsOwner;
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::routes::to_the_end;
use crate::state::HttpState;

/// The draft was deleted.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "success": true, "message": "The draft was deleted.", "email": "alice@example.test", "uid": 1
}))]
pub(crate) struct DraftDeleted {
    /// Always true.
    success: bool,
    /// Result in words.
    message: &'static str,
    /// Mailbox address.
    email: String,
    /// IMAP UID of the deleted draft.
    uid: u32,
}

documented_errors!(Errors, documented, [AccessDenied, MailboxNotFound, MessageNotFound, ImapError]);

/// Delete a draft
///
/// For the mailbox owner and for admins. Permanently removes a message with the flag `\Draft` from the folder for drafts.
/// Any other message gets `MESSAGE_NOT_FOUND` and stays.
#[utoipa::path(delete, path = "/mailbox/{email}/drafts/{uid}", tag = "mailbox", operation_id = "delete_draft",
    params(
        ("email" = String, Path, format = IdnEmail, description = "Mailbox address.", example = "alice@example.test"),
        ("uid" = u32, Path, description = "IMAP UID of the draft.", example = 1),
    ),
    responses((status = 200, description = "The draft was deleted.", body = DraftDeleted), Errors))]
pub(crate) async fn delete_draft(
    State(state): State<HttpState>,
    DraftsOwner { caller, mailbox }: DraftsOwner,
    path: PathParameters,
) -> Result<Json<DraftDeleted>, ApiError> {
    let (service, uid, email) = (state.service().clone(), path.uid(), mailbox.shown().to_owned());
    to_the_end(async move { service.delete_draft(&caller, &mailbox, uid).await }).await??;
    Ok(Json(DraftDeleted { success: true, message: "The draft was deleted.", email, uid }))
}
