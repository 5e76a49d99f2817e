//! Reading mailboxes. Every operation asks for the right to read first, and leaves flags as they are.

mod download_attachment;
mod download_raw;
mod list_attachments;
mod list_folders;
mod list_messages;
mod read_message;
mod search;

pub use mailapi_backend::{
    AttachmentInfo, ByteStream, Correspondent, FolderInfo, FolderScope, FullMessage, MailboxError, MessageSummary,
    OpenedAttachment, OpenedMessage, SearchHit, SearchQuery, SearchText,
};
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
