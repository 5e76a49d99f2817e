//! `GET /mailbox/{email}/messages/{uid}/attachment/{index}`, and by name.

use axum::extract::State;
use axum::response::Response;
use mailapi_service::mailbox::OpenedAttachment;

use super::{folder_in, folder_in_path, mailbox_in};
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
    [AccessDenied, MailboxNotFound, InvalidFolder, MessageNotFound, AttachmentNotFound, ValidationError, ImapError,]
);

/// Download an attachment
///
/// Returns the decoded file with its own media type. For the mailbox owner, callers with `view_mailbox` on the domain,
/// and admins.
#[utoipa::path(get, path = "/mailbox/{email}/messages/{uid}/attachment/{index}", tag = "mailbox",
    operation_id = "download_attachment",
    params(
        ("email" = String, Path, format = IdnEmail, description = "Mailbox address.", example = "alice@example.test"),
        ("uid" = u32, Path, description = "IMAP UID of the message.", example = 1),
        ("index" = u32, Path, description = "Index of the attachment, from `attachments`.", example = 0),
        ("folder" = Option<String>, Query, description = "Folder name; `INBOX` by default."),
    ),
    responses(
        (status = 200, description = "The content of the file.", content(
            (Blob = "application/octet-stream"),
            (Blob = "*/*"),
        ), headers(
            ("Content-Disposition" = String, description = "File name, in ASCII and in UTF-8 (RFC 6266)."),
        )),
        Errors,
    ))]
pub(crate) async fn download_attachment(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    query: Query,
) -> Result<Response, ApiError> {
    let mailbox = mailbox_in(&path, &caller)?;
    let folder = folder_in(&query);
    query.check()?;
    let service = state.service();
    let opened = service.download_attachment(&caller, &mailbox, &folder?, path.uid(), path.index()).await?;
    Ok(file(opened))
}

/// Download an attachment by name
///
/// Returns the first attachment with this name, or the one at `index`. For the mailbox owner, callers with
/// `view_mailbox` on the domain, and admins.
#[utoipa::path(get, path = "/mailbox/{email}/folders/{folder}/messages/{uid}/attachments/{name}", tag = "mailbox",
    operation_id = "download_named_attachment",
    params(
        ("email" = String, Path, format = IdnEmail, description = "Mailbox address.", example = "alice@example.test"),
        ("folder" = String, Path, description = "Folder name, percent-encoded.", example = "INBOX"),
        ("uid" = u32, Path, description = "IMAP UID of the message.", example = 1),
        ("name" = String, Path, description = "File name of the attachment, percent-encoded.", example = "minutes.txt"),
        ("index" = Option<u32>, Query, description = "Index of the attachment, if several have the same name."),
    ),
    responses(
        (status = 200, description = "The content of the file.", content(
            (Blob = "application/octet-stream"),
            (Blob = "*/*"),
        ), headers(
            ("Content-Disposition" = String, description = "File name, in ASCII and in UTF-8 (RFC 6266)."),
        )),
        Errors,
    ))]
pub(crate) async fn download_attachment_named(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    mut query: Query,
) -> Result<Response, ApiError> {
    let mailbox = mailbox_in(&path, &caller)?;
    let index = query.number("index");
    query.check()?;
    let folder = folder_in_path(&path)?;
    let (uid, name) = (path.uid(), path.text("name"));
    let service = state.service();
    let opened = service.download_attachment_named(&caller, &mailbox, &folder, uid, name, index).await?;
    Ok(file(opened))
}

fn file(OpenedAttachment { info, content }: OpenedAttachment) -> Response {
    let content_type = info.content_type + &info.type_parameters;
    download(&content_type, &info.filename, info.size, content)
}
