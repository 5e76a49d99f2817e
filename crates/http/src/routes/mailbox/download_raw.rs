//! `GET /mailbox/{email}/messages/{uid}/raw`.

use axum::extract::State;
use axum::response::Response;

use super::{folder_in, mailbox_in};
use crate::caller::Caller;
use crate::download::download;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::query::Query;
use crate::shape::Octets;
use crate::state::HttpState;

documented_errors!(
    Errors,
    documented,
    [AccessDenied, MailboxNotFound, InvalidFolder, MessageNotFound, ValidationError, ImapError,]
);

/// Download a message
///
/// The message as it was received. For the mailbox's own token, callers with `view_mailbox` on its domain, and admins.
#[utoipa::path(get, path = "/mailbox/{email}/messages/{uid}/raw", tag = "mailbox", operation_id = "download_raw_message",
    params(
        ("email" = String, Path, format = IdnEmail, description = "The mailbox's address.",
            example = "ann@example.org"),
        ("uid" = u32, Path, description = "The message's number in the folder.", example = 17),
        ("folder" = Option<String>, Query, description = "The folder; absent means INBOX.", example = "INBOX"),
    ),
    responses(
        (status = 200, description = "The message.", content(
            (Octets = "application/octet-stream"),
            (Octets = "message/rfc822"),
        ), headers(
            ("Content-Disposition" = String, description = "A name for the file: its number and `.eml`."),
        )),
        Errors,
    ))]
pub(crate) async fn download_raw(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    query: Query,
) -> Result<Response, ApiError> {
    let mailbox = mailbox_in(&path, &caller)?;
    let folder = folder_in(&query);
    query.check()?;
    let uid = path.uid();
    let opened = state.service().download_raw(&caller, &mailbox, &folder?, uid).await?;
    Ok(download("message/rfc822", &format!("{uid}.eml"), opened.size, opened.content))
}
