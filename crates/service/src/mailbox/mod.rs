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
    OpenedAttachment, OpenedMessage, PageView, SearchHit, SearchQuery, SearchText, Validator,
};
use mailapi_model::{Denied, EmailAddress, ReadMailbox};

use crate::Service;
use crate::cache::EpochCache;

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

/// Mailboxes that have an account.
pub(crate) type KnownMailboxes = EpochCache<EmailAddress, ()>;

impl Service {
    /// The mailbox to read. Where the mail server looks mailboxes up in our database, one that is not there is not
    /// asked for: a failed log-in there holds up everybody who comes from our address. When our database does not
    /// answer, the mail server is asked all the same. A user database that is not ours is the mail server's, too.
    pub(crate) async fn existing<'a>(&self, reader: &'a ReadMailbox) -> Result<&'a EmailAddress, MailboxError> {
        let address = reader.address();
        if !self.0.backend.provisioning.looks_accounts_up() || self.0.store.directory().is_some() {
            return Ok(address);
        }
        let mark = self.0.epoch.mark();
        if self.0.known_mailboxes.get(address, mark).is_some() {
            return Ok(address);
        }
        match self.0.store.accounts().get(address).await {
            Ok(None) => return Err(MailboxError::NoSuchMailbox),
            Ok(Some(_)) => self.0.known_mailboxes.put(address.clone(), mark, ()),
            Err(error) => tracing::warn!(%error, "the account of a mailbox could not be looked up"),
        }
        Ok(address)
    }
}
