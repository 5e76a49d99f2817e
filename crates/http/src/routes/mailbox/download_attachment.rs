//! `GET /mailbox/{email}/messages/{uid}/attachment/{index}`, and by name.

use axum::extract::State;
use axum::response::Response;
use mailapi_service::mailbox::OpenedAttachment;

use super::{FolderParameter, folder_in_path, folder_or_inbox, mailbox_in};
use crate::caller::Caller;
use crate::download::download;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::query::{Query, query_parameters};
use crate::shape::Blob;
use crate::state::HttpState;

query_parameters! {
    /// Choice between attachments of one name.
    pub(crate) struct NamedAttachment {
        /// Index of the attachment, if several have the same name.
        index: Option<u32>;
    }
}

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
        FolderParameter,
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
    query: Query<FolderParameter>,
) -> Result<Response, ApiError> {
    let mailbox = mailbox_in(&path, &caller)?;
    let folder = folder_or_inbox(query.read()?.folder)?;
    let service = state.service();
    let opened = service.download_attachment(&caller, &mailbox, &folder, path.uid(), path.index()).await?;
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
        NamedAttachment,
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
    query: Query<NamedAttachment>,
) -> Result<Response, ApiError> {
    let mailbox = mailbox_in(&path, &caller)?;
    let NamedAttachment { index } = query.read()?;
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
