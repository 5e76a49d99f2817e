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
use crate::shape::Octets;
use crate::state::HttpState;

documented_errors!(
    Errors,
    documented,
    [AccessDenied, MailboxNotFound, InvalidFolder, MessageNotFound, AttachmentNotFound, ValidationError, ImapError,]
);

/// Download an attachment
///
/// The file itself, decoded, with its own media type and the `charset`, `method`, `format` and `delsp` that it was sent
/// with. For the mailbox's own token, callers with `view_mailbox` on its domain, and admins.
#[utoipa::path(get, path = "/mailbox/{email}/messages/{uid}/attachment/{index}", tag = "mailbox",
    operation_id = "download_attachment",
    params(
        ("email" = String, Path, format = IdnEmail, description = "The mailbox's address.",
            example = "ann@example.org"),
        ("uid" = u32, Path, description = "The message's number in the folder.", example = 17),
        ("index" = u32, Path, description = "The attachment's position in the message.", example = 0),
        ("folder" = Option<String>, Query, description = "The folder; absent means INBOX.", example = "INBOX"),
    ),
    responses(
        (status = 200, description = "The file.", content(
            (Octets = "application/octet-stream"),
            (Octets = "*/*"),
        ), headers(
            ("Content-Disposition" = String, description = "The file's name, in ASCII and in UTF-8 (RFC 6266)."),
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

/// Download an attachment by its name
///
/// The first attachment of that name, or the one at `index`.
#[utoipa::path(get, path = "/mailbox/{email}/folders/{folder}/messages/{uid}/attachments/{name}", tag = "mailbox",
    operation_id = "download_named_attachment",
    params(
        ("email" = String, Path, format = IdnEmail, description = "The mailbox's address.",
            example = "ann@example.org"),
        ("folder" = String, Path, description = "The folder.", example = "INBOX"),
        ("uid" = u32, Path, description = "The message's number in the folder.", example = 17),
        ("name" = String, Path, description = "The attachment's name.", example = "minutes.txt"),
        ("index" = Option<u32>, Query, description = "The attachment's position, where several have the name."),
    ),
    responses(
        (status = 200, description = "The file.", content(
            (Octets = "application/octet-stream"),
            (Octets = "*/*"),
        ), headers(
            ("Content-Disposition" = String, description = "The file's name, in ASCII and in UTF-8 (RFC 6266)."),
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
