//! Reading mailboxes. Every operation first checks the right to read, and leaves flags unchanged.

mod download_attachment;
mod download_raw;
mod list_attachments;
mod list_folders;
mod list_messages;
mod read_message;
mod search;

pub use mailapi_backend::{
    AttachmentInfo, Backlog, ByteStream, Correspondent, FolderInfo, FolderScope, FullMessage, MailboxError,
    MessageSummary, OpenedAttachment, OpenedMessage, PageView, SearchHit, SearchQuery, SearchText, Validator,
};
use mailapi_model::{Denied, EmailAddress, ReadMailbox};

use crate::Service;
use crate::cache::EpochCache;

/// The reason why a mailbox was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The caller may not read the mailbox, which may or may not exist.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The mail server's error.
    #[error(transparent)]
    Mailbox(#[from] MailboxError),
}

/// Mailboxes that have an account.
pub(crate) type KnownMailboxes = EpochCache<EmailAddress, ()>;

impl Service {
    /// Returns the mailbox to read. If the mail server uses the account database, a missing mailbox is rejected here.
    /// A failed log-in at the mail server would delay all log-ins from this host.
    ///
    /// If the database fails, the mail server decides. It also decides with an external user database, which it
    /// shares.
    pub(crate) async fn existing<'a>(&self, reader: &'a ReadMailbox) -> Result<&'a EmailAddress, MailboxError> {
        let address = reader.address();
        if !self.0.backend.provisioning.looks_accounts_up() || self.0.store.directory().is_some() {
            return Ok(address);
        }
        let look_up = async || match self.0.store.accounts().get(address).await {
            Ok(account) => account.map(drop).ok_or(None),
            Err(error) => Err(Some(error)),
        };
        match self.0.known_mailboxes.get_or_read(&self.0.epoch, address, look_up).await {
            Ok(()) => {}
            Err(None) => return Err(MailboxError::NoSuchMailbox),
            Err(Some(error)) => tracing::warn!(%error, "could not look up the account of a mailbox"),
        }
        Ok(address)
    }
}
