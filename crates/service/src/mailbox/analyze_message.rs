//! `GET /mailbox/{email}/messages/{uid}/security`.

use std::sync::Arc;

use futures_util::TryStreamExt;
use mailapi_backend::{FairPermits, FolderScope, MailboxError, OpenedMessage, SearchQuery, Shared};
use mailapi_model::{Blob, Denied, EmailAddress, FolderName, Page};
use mailapi_security::{OwnNames, SecurityReport, Surroundings, analyze};

use super::ReadError;
use crate::cache::EpochCache;
use crate::{Caller, Service, Unavailable};

/// Messages that are analyzed at once. Each takes up to 32 MiB of memory and one processor for some milliseconds.
const AT_ONCE: usize = 2;

/// Matches of the author's address that are looked through for other messages of the author.
const LOOKED_THROUGH: u32 = 50;

/// The reason why a message was not analyzed.
#[derive(Debug, thiserror::Error)]
pub enum AnalyzeError {
    /// The operator has not switched the analysis on.
    #[error("the security analysis is off")]
    Off,
    /// The message was not read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The disk has no room for the message, or the database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl From<Denied> for AnalyzeError {
    fn from(denied: Denied) -> Self {
        Self::Read(denied.into())
    }
}

impl From<MailboxError> for AnalyzeError {
    fn from(error: MailboxError) -> Self {
        Self::Read(error.into())
    }
}

/// What all analyses share.
pub(crate) struct Analyses {
    permits: FairPermits<AnalyzedMailbox>,
    own_names: EpochCache<(), Arc<OwnNames>>,
}

impl Default for Analyses {
    fn default() -> Self {
        Self { permits: FairPermits::new(AT_ONCE), own_names: EpochCache::new(1) }
    }
}

/// The mailbox of a message. Mailboxes take turns.
struct AnalyzedMailbox(EmailAddress);

impl Shared for AnalyzedMailbox {
    type Group = EmailAddress;
    type Member = ();

    fn group(&self) -> EmailAddress {
        self.0.clone()
    }

    fn member(&self) {}
}

impl Service {
    /// Looks for signs of fraud in a message.
    ///
    /// # Errors
    /// See [`AnalyzeError`].
    pub async fn analyze_message(
        &self,
        caller: &Caller,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
    ) -> Result<SecurityReport, AnalyzeError> {
        let reader = caller.grants.may_read(mailbox)?;
        if !self.0.settings.security_analysis {
            return Err(AnalyzeError::Off);
        }
        let address = self.existing(&reader).await?;
        let _permit = self.0.analyses.permits.take(AnalyzedMailbox(address.clone())).await;
        let opened = self.0.backend.mailboxes.open_raw(address, folder, uid).await?;
        let message = self.buffered(address, opened).await?;
        let surroundings =
            Surroundings { own_names: self.own_names().await?, own_checker: self.0.settings.results_checker.clone() };
        let analyzed = tokio::task::spawn_blocking(move || analyze(&message, &surroundings)).await;
        let mut report = analyzed.map_err(unforeseen)?.map_err(Unavailable::Room)?;
        if let Some(author) = report.sender.address.clone() {
            report.note_contact(self.is_first_contact(address, &author, (folder, uid)).await);
        }
        Ok(report)
    }

    async fn buffered(&self, mailbox: &EmailAddress, opened: OpenedMessage) -> Result<Blob, AnalyzeError> {
        let mut writer = self.0.buffer.for_mailbox(mailbox.clone()).writer();
        let mut content = opened.content;
        while let Some(piece) = content.try_next().await? {
            writer.push(&piece).await.map_err(|error| Unavailable::Room(error.into()))?;
        }
        Ok(writer.finish().map_err(|error| Unavailable::Room(error.into()))?)
    }

    async fn own_names(&self) -> Result<Arc<OwnNames>, Unavailable> {
        let read = async || Ok(Arc::new(OwnNames::of(self.0.store.domains().approved_names().await?)));
        self.0.analyses.own_names.get_or_read(&self.0.epoch, &(), read).await
    }

    /// Returns whether the mailbox has no other message of an author, and none to the author; `None` if that is not known,
    /// since the search failed or has too many matches.
    async fn is_first_contact(
        &self,
        mailbox: &EmailAddress,
        author: &str,
        (folder, uid): (&FolderName, u32),
    ) -> Option<bool> {
        let page = Page::new(LOOKED_THROUGH, 0);
        let query = SearchQuery { text: author.parse().ok()?, scope: FolderScope::All, page };
        let found = self.0.backend.mailboxes.search(mailbox, &query).await.ok()?;
        let others = found.items.iter().filter(|hit| (&hit.folder, hit.uid) != (folder, uid));
        let own = mailbox.to_string();
        let is_of_either = |email: &str| email.eq_ignore_ascii_case(author) || email.eq_ignore_ascii_case(&own);
        let has_other = others.into_iter().any(|hit| is_of_either(&hit.from.email));
        match has_other {
            true => Some(false),
            false => (found.total <= LOOKED_THROUGH.into()).then_some(true),
        }
    }
}

fn unforeseen(error: tokio::task::JoinError) -> Unavailable {
    Unavailable::Unforeseen(error.to_string())
}
