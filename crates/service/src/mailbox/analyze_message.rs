//! `GET /mailbox/{email}/messages/{uid}/security`.

use std::sync::Arc;

use futures_util::TryStreamExt;
use mailapi_backend::{FairPermits, FolderScope, MailboxError, OpenedMessage, SearchQuery, Shared};
use mailapi_model::{Blob, ClientNetwork, Denied, EmailAddress, FolderName, Page, SecurityMark};
use mailapi_security::{Correspondent, KnownNames, SecurityReport, Severity, Surroundings, analyze};

use super::ReadError;
use crate::cache::EpochCache;
use crate::{Caller, Service, Unavailable};

/// Messages that are analyzed at once. Each takes up to 32 MiB of memory and one processor for some milliseconds.
const AT_ONCE: usize = 2;

/// The folder whose messages have recipients that the owner of the mailbox knows. Authors of received ones may be forgers.
const SENT: &str = "Sent";

/// Sent messages that are read, newest first.
const READ_SENT: u32 = 200;

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
    permits: FairPermits<AnalysisClient>,
    own_names: EpochCache<(), Arc<KnownNames>>,
}

impl Default for Analyses {
    fn default() -> Self {
        Self { permits: FairPermits::new(AT_ONCE), own_names: EpochCache::new(1) }
    }
}

/// A client of the analysis. Clients take turns.
#[derive(Clone, PartialEq)]
enum AnalysisClient {
    /// The mailbox that has the message, or whose token uploads it.
    Mailbox(EmailAddress),
    /// A token without a mailbox; `None` for the operator.
    Token(Option<i64>),
    /// A client that sends mail to this server, with all networks of its subscriber.
    Stranger(String),
}

impl Shared for AnalysisClient {
    type Group = Self;
    type Member = ();

    fn group(&self) -> Self {
        self.clone()
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
        self.may_analyze()?;
        let address = self.existing(&reader).await?;
        let correspondents = self.correspondents(address).await;
        let mut report = self.analyze_stored(address, folder, uid, correspondents).await?;
        if let Some(author) = report.sender.address.clone() {
            report.note_contact(self.is_first_contact(address, &author, (folder, uid)).await);
        }
        Ok(report)
    }

    /// Looks for signs of fraud in a message that a caller uploads. No results in it count as our own.
    ///
    /// # Errors
    /// [`AnalyzeError::Off`] and [`AnalyzeError::Unavailable`].
    pub async fn analyze_upload(&self, caller: &Caller, message: Blob) -> Result<SecurityReport, AnalyzeError> {
        self.may_analyze()?;
        let client = match caller.grants.mailbox() {
            Some(mailbox) => AnalysisClient::Mailbox(mailbox.clone()),
            None => AnalysisClient::Token(caller.token_number()),
        };
        let _permit = self.0.analyses.permits.take(client).await;
        Ok(self.analyzed(message, None, Vec::new()).await?)
    }

    /// Looks for signs of fraud in a message that arrives from outside, in front of which are the results of this server.
    pub(crate) async fn analyze_arriving(
        &self,
        client: &ClientNetwork,
        message: Blob,
        hostname: &str,
    ) -> Result<SecurityMark, Unavailable> {
        let _permit = self.0.analyses.permits.take(AnalysisClient::Stranger(client.subscriber())).await;
        Ok(mark_of(&self.analyzed(message, Some(hostname.to_owned()), Vec::new()).await?))
    }

    /// Looks for signs of fraud in a message that a mailbox received; `None` while the analysis is off.
    pub(crate) async fn analyze_received(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
    ) -> Result<Option<SecurityMark>, AnalyzeError> {
        if self.may_analyze().is_err() {
            return Ok(None);
        }
        // A list of the sent messages for each that arrives would cost more than the analysis.
        Ok(Some(mark_of(&self.analyze_stored(mailbox, folder, uid, Vec::new()).await?)))
    }

    async fn analyze_stored(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
        correspondents: Vec<Correspondent>,
    ) -> Result<SecurityReport, AnalyzeError> {
        let _permit = self.0.analyses.permits.take(AnalysisClient::Mailbox(mailbox.clone())).await;
        let opened = self.0.backend.mailboxes.open_raw(mailbox, folder, uid).await?;
        let message = self.buffered(mailbox, opened).await?;
        Ok(self.analyzed(message, self.0.settings.results_checker.clone(), correspondents).await?)
    }

    /// Returns whether the operator has switched the analysis on.
    ///
    /// # Errors
    /// [`AnalyzeError::Off`].
    pub fn may_analyze(&self) -> Result<(), AnalyzeError> {
        if self.0.settings.security_analysis { Ok(()) } else { Err(AnalyzeError::Off) }
    }

    async fn analyzed(
        &self,
        message: Blob,
        own_checker: Option<String>,
        correspondents: Vec<Correspondent>,
    ) -> Result<SecurityReport, Unavailable> {
        let surroundings = Surroundings { own_names: self.own_names().await?, own_checker, correspondents };
        let analyzed = tokio::task::spawn_blocking(move || analyze(&message, &surroundings)).await;
        analyzed.map_err(unforeseen)?.map_err(Unavailable::Room)
    }

    async fn buffered(&self, mailbox: &EmailAddress, opened: OpenedMessage) -> Result<Blob, AnalyzeError> {
        let mut writer = self.0.buffer.for_mailbox(mailbox.clone()).writer();
        let mut content = opened.content;
        while let Some(piece) = content.try_next().await? {
            writer.push(&piece).await.map_err(|error| Unavailable::Room(error.into()))?;
        }
        Ok(writer.finish().map_err(|error| Unavailable::Room(error.into()))?)
    }

    /// Returns the recipients of what the owner of a mailbox has sent. A mailbox without the folder has none.
    async fn correspondents(&self, mailbox: &EmailAddress) -> Vec<Correspondent> {
        let Ok(sent) = SENT.parse::<FolderName>() else { return Vec::new() };
        let listed = self.0.backend.mailboxes.list(mailbox, &sent, Page::new(READ_SENT, 0)).await;
        let people = listed.into_iter().flat_map(|listed| listed.items).flat_map(|message| message.to);
        people.map(|person| Correspondent { name: person.name, address: person.email }).collect()
    }

    async fn own_names(&self) -> Result<Arc<KnownNames>, Unavailable> {
        let read = async || Ok(Arc::new(KnownNames::of(self.0.store.domains().approved_names().await?)));
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

/// Returns the verdict with the signs that count.
fn mark_of(report: &SecurityReport) -> SecurityMark {
    let counting = report.reasons.iter().map(|reason| reason.sign).filter(|sign| sign.severity() > Severity::Note);
    let signs = counting.take(SecurityMark::MAX_SIGNS).map(|sign| sign.code().to_owned()).collect();
    SecurityMark { verdict: report.verdict.as_str().to_owned(), signs }
}

fn unforeseen(error: tokio::task::JoinError) -> Unavailable {
    Unavailable::Unforeseen(error.to_string())
}
