//! Reading mailboxes, and drafts. Most operations that read have two paths: one with the folder in the query, one with
//! it in the path.

mod analyze_message;
mod analyze_upload;
mod delete_draft;
mod download_attachment;
mod download_raw;
mod list_attachments;
mod list_folders;
mod list_messages;
mod read_message;
mod save_draft;
mod search;
mod shape;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use mailapi_model::{EmailAddress, FolderName, ReadMailbox};
use mailapi_service::Caller;
use mailapi_service::mailbox::{AnalyzeError, DraftError, MailboxError, ReadError};

pub(crate) use list_messages::{MessagesListed, written_page};

use crate::caller;
use crate::error::{ApiError, ErrorCode};
use crate::path::PathParameters;
use crate::query::query_parameters;
use crate::router::{Routes, api_routes as routes};
use crate::state::HttpState;

/// Every operation of this area.
pub(crate) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list_folders::list_folders))
        .routes(routes!(list_messages::list_messages))
        .routes(routes!(list_messages::list_folder_messages))
        .routes(routes!(read_message::read_message))
        .routes(routes!(read_message::read_folder_message))
        .routes(routes!(analyze_message::analyze_message))
        .routes(routes!(analyze_upload::analyze_upload))
        .routes(routes!(list_attachments::list_attachments))
        .routes(routes!(download_attachment::download_attachment))
        .routes(routes!(download_attachment::download_attachment_named))
        .routes(routes!(download_raw::download_raw))
        .routes(routes!(search::search))
        .routes(routes!(save_draft::save_draft))
        .routes(routes!(delete_draft::delete_draft))
}

/// Returns the mailbox in the path if the caller may read it. An invalid address is an unknown mailbox, which only an
/// admin may learn.
///
/// The operation checks the permission again. Checking it here first hides other errors from unauthorized callers.
fn mailbox_in(path: &PathParameters, caller: &Caller) -> Result<EmailAddress, ApiError> {
    Ok(reader_in(path, caller)?.address().clone())
}

/// Permission to read the mailbox in the path.
fn reader_in(path: &PathParameters, caller: &Caller) -> Result<ReadMailbox, ApiError> {
    Ok(caller.grants.may_read(&address_in(path, caller)?)?)
}

fn address_in(path: &PathParameters, caller: &Caller) -> Result<EmailAddress, ApiError> {
    let unknown = || caller.grants.admin().map_or_else(Into::into, |_| ErrorCode::MailboxNotFound.into());
    path.parsed("email").ok_or_else(unknown)
}

/// A caller who may change the drafts of the mailbox in the path. The body is read only after this check.
struct DraftsOwner {
    caller: Caller,
    mailbox: EmailAddress,
}

impl FromRequestParts<HttpState> for DraftsOwner {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        let caller::Caller(caller) = caller::Caller::from_request_parts(parts, state).await?;
        let path = PathParameters::from_request_parts(parts, state).await?;
        let mailbox = address_in(&path, &caller)?;
        state.service().may_manage_drafts(&caller, &mailbox)?;
        Ok(Self { caller, mailbox })
    }
}

query_parameters! {
    /// Folder of the operation.
    struct FolderParameter {
        /// Folder name; `INBOX` by default.
        folder: Option<String>;
    }
}

/// Folder of a query, INBOX by default. An invalid name is an unknown folder.
pub(crate) fn folder_or_inbox(name: Option<String>) -> Result<FolderName, ApiError> {
    name.map_or_else(|| Ok(FolderName::inbox()), |name| folder(&name))
}

/// Folder in the path.
fn folder_in_path(path: &PathParameters) -> Result<FolderName, ApiError> {
    folder(path.text("folder"))
}

fn folder(name: &str) -> Result<FolderName, ApiError> {
    name.parse().map_err(|_| ErrorCode::InvalidFolder.into())
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Denied(denied) => denied.into(),
            ReadError::Mailbox(error) => error.into(),
        }
    }
}

impl From<AnalyzeError> for ApiError {
    fn from(error: AnalyzeError) -> Self {
        match error {
            AnalyzeError::Off => ErrorCode::AnalysisOff.into(),
            AnalyzeError::Read(error) => error.into(),
            AnalyzeError::Unavailable(error) => error.into(),
        }
    }
}

impl From<DraftError> for ApiError {
    fn from(error: DraftError) -> Self {
        match error {
            DraftError::Denied(denied) => denied.into(),
            DraftError::TooLarge { limit } => {
                Self::new(ErrorCode::PayloadTooLarge, format!("The message is larger than {limit} bytes."))
            }
            DraftError::Mailbox(error) => error.into(),
            DraftError::Unavailable(error) => error.into(),
        }
    }
}

impl From<MailboxError> for ApiError {
    fn from(error: MailboxError) -> Self {
        match error {
            MailboxError::NoSuchMailbox => ErrorCode::MailboxNotFound.into(),
            MailboxError::NoSuchFolder => ErrorCode::InvalidFolder.into(),
            MailboxError::NoSuchMessage => ErrorCode::MessageNotFound.into(),
            MailboxError::NoSuchAttachment => ErrorCode::AttachmentNotFound.into(),
            MailboxError::Full => Self::new(ErrorCode::PayloadTooLarge, "The mailbox has no room for the message."),
            MailboxError::TooLarge => {
                Self::new(ErrorCode::PayloadTooLarge, "The message is larger than the mail server stores.")
            }
            MailboxError::Unavailable(cause) => Self::mailbox_server(cause),
        }
    }
}
