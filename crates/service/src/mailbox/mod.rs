//! Reading mailboxes. Every operation asks for the right to read first, and leaves flags as they are.

mod download_attachment;
mod download_raw;
mod list_attachments;
mod list_folders;
mod list_messages;
mod read_message;
mod search;

use mailapi_backend::MailboxError;
use mailapi_model::Denied;

/// Why a mailbox was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The caller may not read it. Whether it exists is not told.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The mail server's answer.
    #[error(transparent)]
    Mailbox(#[from] MailboxError),
}
