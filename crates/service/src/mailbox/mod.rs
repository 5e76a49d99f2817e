//! Reading mailboxes, and drafts. Every operation first checks its right. Reading leaves flags unchanged.

mod analyze_message;
mod delete_draft;
mod download_attachment;
mod download_raw;
mod drafts_folder;
mod list_attachments;
mod list_folders;
mod list_messages;
mod read_message;
mod save_draft;
mod search;

pub use analyze_message::AnalyzeError;
pub use mailapi_backend::mime::html_text;
pub use mailapi_backend::{
    AttachmentInfo, Backlog, ByteStream, Correspondent, FolderInfo, FolderScope, FullMessage, ImportProgress,
    MailboxError, MessageSummary, OpenedAttachment, OpenedMessage, PageView, SavedDraft, SearchHit, SearchQuery,
    SearchText, Validator,
};
use mailapi_model::{Denied, EmailAddress, ReadMailbox};
pub use mailapi_security::{
    AnalyzedFile, AnalyzedLink, AnalyzedSender, ContentFacts, FoundSign, ReadResult, ReadResults, ResultSource,
    SecurityReport, SecuritySign, Severity, SpamResult, Verdict,
};
pub use save_draft::DraftError;

pub(crate) use analyze_message::Analyses;

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
    /// A failed login at the mail server would delay all logins from this host.
    ///
    /// If the database fails, the mail server decides. It also decides with an external user database, which it
    /// shares.
    pub(crate) async fn existing<'a>(&self, reader: &'a ReadMailbox) -> Result<&'a EmailAddress, MailboxError> {
        self.existing_mailbox(reader.address()).await
    }

    async fn existing_mailbox<'a>(&self, address: &'a EmailAddress) -> Result<&'a EmailAddress, MailboxError> {
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
