//! `GET /mailbox/{email}/folders/{folder}/messages/{uid}/attachments`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::shape::AttachmentEntry;
use super::{folder_in_path, mailbox_in};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::state::HttpState;

/// The attachments of a message.
#[derive(Serialize, ToSchema)]
pub(crate) struct AttachmentsListed {
    /// Always true.
    success: bool,
    /// Mailbox address.
    mailbox: String,
    /// Folder name.
    folder: String,
    /// IMAP UID: the message's number in the folder.
    uid: u32,
    /// Number of attachments.
    total: usize,
    /// Attachments in the order of the message.
    attachments: Vec<AttachmentEntry>,
}

documented_errors!(Errors, documented, [AccessDenied, MailboxNotFound, InvalidFolder, MessageNotFound, ImapError,]);

/// List attachments
///
/// For the mailbox owner, callers with `view_mailbox` on the domain, and admins.
#[utoipa::path(get, path = "/mailbox/{email}/folders/{folder}/messages/{uid}/attachments", tag = "mailbox",
    operation_id = "list_attachments",
    params(
        ("email" = String, Path, format = IdnEmail, description = "Mailbox address.", example = "alice@example.test"),
        ("folder" = String, Path, description = "Folder name, percent-encoded.", example = "INBOX"),
        ("uid" = u32, Path, description = "IMAP UID of the message.", example = 1),
    ),
    responses((status = 200, description = "The attachments.", body = AttachmentsListed), Errors))]
pub(crate) async fn list_attachments(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<AttachmentsListed>, ApiError> {
    let mailbox = mailbox_in(&path, &caller)?;
    let (folder, uid) = (folder_in_path(&path)?, path.uid());
    let attachments = state.service().list_attachments(&caller, &mailbox, &folder, uid).await?;
    Ok(Json(AttachmentsListed {
        success: true,
        mailbox: mailbox.shown().to_owned(),
        folder: folder.as_str().to_owned(),
        uid,
        total: attachments.len(),
        attachments: attachments.into_iter().map(Into::into).collect(),
    }))
}
