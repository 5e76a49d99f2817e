//! `GET /mailbox/{email}/folders`.

use axum::extract::State;
use mailapi_service::mailbox::FolderInfo;
use serde::Serialize;
use utoipa::ToSchema;

use super::mailbox_in;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::state::HttpState;

/// The folders of a mailbox.
#[derive(Serialize, ToSchema)]
pub(crate) struct FoldersListed {
    /// Always true.
    success: bool,
    /// Mailbox address.
    mailbox: String,
    /// Folders: INBOX first, then sorted by name.
    folders: Vec<FolderEntry>,
}

/// A folder.
#[derive(Serialize, ToSchema)]
#[schema(as = Folder, example = json!({ "name": "INBOX", "messages": 17, "unread": 3, "size": 52344 }))]
struct FolderEntry {
    /// Folder name, with `/` between levels.
    name: String,
    /// Number of messages.
    messages: u64,
    /// Number of unread messages.
    unread: u64,
    /// Total size in bytes.
    size: u64,
}

impl From<FolderInfo> for FolderEntry {
    fn from(folder: FolderInfo) -> Self {
        let FolderInfo { name, messages, unread, size } = folder;
        Self { name: name.as_str().to_owned(), messages, unread, size }
    }
}

documented_errors!(Errors, documented, [AccessDenied, MailboxNotFound, ImapError]);

/// List folders
///
/// For the mailbox owner, callers with `view_mailbox` on the domain, and admins.
#[utoipa::path(get, path = "/mailbox/{email}/folders", tag = "mailbox", operation_id = "list_folders",
    params(("email" = String, Path, format = IdnEmail, description = "Mailbox address.", example = "alice@example.test")),
    responses((status = 200, description = "The folders.", body = FoldersListed), Errors))]
pub(crate) async fn list_folders(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<FoldersListed>, ApiError> {
    let mailbox = mailbox_in(&path, &caller)?;
    let folders = state.service().list_folders(&caller, &mailbox).await?;
    Ok(Json(FoldersListed {
        success: true,
        mailbox: mailbox.shown().to_owned(),
        folders: folders.into_iter().map(Into::into).collect(),
    }))
}
