//! Reading mailboxes. Most operations have two paths: one with the folder in the query, one with it in the path.

mod download_attachment;
mod download_raw;
mod list_attachments;
mod list_folders;
mod list_messages;
mod read_message;
mod search;
mod shape;

use mailapi_model::{EmailAddress, FolderName, ReadMailbox};
use mailapi_service::Caller;
use mailapi_service::mailbox::{MailboxError, ReadError};

pub(crate) use list_messages::{MessagesListed, written_page};

use crate::error::{ApiError, ErrorCode};
use crate::path::PathParameters;
use crate::query::query_parameters;
use crate::router::{Routes, api_routes as routes};

/// Every operation of this area.
pub(crate) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list_folders::list_folders))
        .routes(routes!(list_messages::list_messages))
        .routes(routes!(list_messages::list_folder_messages))
        .routes(routes!(read_message::read_message))
        .routes(routes!(read_message::read_folder_message))
        .routes(routes!(list_attachments::list_attachments))
        .routes(routes!(download_attachment::download_attachment))
        .routes(routes!(download_attachment::download_attachment_named))
        .routes(routes!(download_raw::download_raw))
        .routes(routes!(search::search))
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
    let Some(mailbox) = path.parsed("email") else {
        return Err(caller.grants.admin().map_or_else(Into::into, |_| ErrorCode::MailboxNotFound.into()));
    };
    Ok(caller.grants.may_read(&mailbox)?)
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
