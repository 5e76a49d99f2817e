//! `GET /mailbox/{email}/messages/{uid}/raw`.

use axum::extract::State;
use axum::response::Response;

use super::{FolderParameter, folder_or_inbox, mailbox_in};
use crate::caller::Caller;
use crate::download::download;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::query::Query;
use crate::shape::Blob;
use crate::state::HttpState;

documented_errors!(
    Errors,
    documented,
    [AccessDenied, MailboxNotFound, InvalidFolder, MessageNotFound, ValidationError, ImapError,]
);

/// Download a raw message
///
/// Returns the unchanged message (RFC 5322). For the mailbox owner, callers with `view_mailbox` on the domain, and
/// admins.
#[utoipa::path(get, path = "/mailbox/{email}/messages/{uid}/raw", tag = "mailbox", operation_id = "download_raw_message",
    params(
        ("email" = String, Path, format = IdnEmail, description = "Mailbox address.", example = "alice@example.test"),
        ("uid" = u32, Path, description = "IMAP UID of the message.", example = 1),
        FolderParameter,
    ),
    responses(
        (status = 200, description = "The raw message.", content(
            (Blob = "application/octet-stream"),
            (Blob = "message/rfc822"),
        ), headers(
            ("Content-Disposition" = String, description = "File name: the UID followed by `.eml`."),
        )),
        Errors,
    ))]
pub(crate) async fn download_raw(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    query: Query<FolderParameter>,
) -> Result<Response, ApiError> {
    let mailbox = mailbox_in(&path, &caller)?;
    let folder = folder_or_inbox(query.read()?.folder)?;
    let uid = path.uid();
    let opened = state.service().download_raw(&caller, &mailbox, &folder, uid).await?;
    Ok(download("message/rfc822", &format!("{uid}.eml"), opened.size, opened.content))
}
