//! The pool: finds or makes a connection for each piece of work.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mailapi_backend::MailboxError;
use mailapi_imap::client::Code;
use mailapi_model::{EmailAddress, FolderName};
use moka::sync::Cache;
use rustls::ClientConfig;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::connection::ImapConnection;
use super::dial::Dialer;
use super::error::ImapError;
use super::job::Job;
use super::lease::Lease;
use super::places::{Found, Open, Place, Places, Wanted};
use super::settings::ImapSettings;

/// Connections to one IMAP server; clones share them.
#[derive(Clone)]
pub struct ImapPool {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    settings: ImapSettings,
    dialer: Dialer,
    places: Mutex<Places>,
    /// Told whenever a connection or a place for one is given back.
    given_back: Notify,
    unknown_mailboxes: Cache<EmailAddress, ()>,
}

impl ImapPool {
    /// A pool without connections. `tls` is not used with [`crate::TlsMode::None`].
    #[must_use]
    pub fn new(settings: ImapSettings, tls: Arc<ClientConfig>) -> Self {
        let unknown_mailboxes = Cache::builder()
            .max_capacity(settings.unknown_mailboxes)
            .time_to_live(settings.unknown_mailbox_pause)
            .build();
        let shared = Shared {
            dialer: Dialer::new(settings.clone(), tls),
            settings,
            places: Mutex::default(),
            given_back: Notify::new(),
            unknown_mailboxes,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Whether the server can be reached; without a log-in.
    ///
    /// # Errors
    /// Why not, in a few words.
    pub async fn check(&self) -> Result<(), String> {
        self.shared.dialer.check().await
    }

    /// Closes what nobody has used for [`ImapSettings::idle_lifetime`]; how many. The same happens whenever a connection
    /// is wanted, so that a loop around this is needed only where nobody asks for long.
    pub fn close_idle(&self) -> usize {
        let expired = self.shared.places().take_expired(self.shared.settings.idle_lifetime);
        expired.len()
    }

    /// Closes the kept connections of a mailbox, and those in use when their work ends: it was removed, made, or changed
    /// from outside.
    pub fn forget(&self, mailbox: &EmailAddress) {
        let closing = {
            let mut places = self.shared.places();
            // Under the lock, so that no log-in that began earlier adds the mailbox again.
            self.shared.unknown_mailboxes.invalidate(mailbox);
            places.forget(mailbox)
        };
        drop(closing);
    }

    /// Does work on a connection of the mailbox, preferably one that has the folder open. The connection comes with
    /// what was found out, for those who have not read everything yet.
    pub(crate) async fn run_keeping<J: Job>(
        &self,
        mailbox: &EmailAddress,
        folder: Option<&FolderName>,
        job: &J,
    ) -> Result<(J::Output, Lease), MailboxError> {
        self.run_wanted(Wanted { mailbox, open: Open::like(folder), is_new: false }, job).await
    }

    async fn run_wanted<J: Job>(&self, wanted: Wanted<'_>, job: &J) -> Result<(J::Output, Lease), MailboxError> {
        let mut lease = self.lease(wanted).await?;
        let outcome = job.run(lease.connection()).await;
        match outcome.as_ref().err().and_then(stale_reason) {
            Some(reason) if lease.was_kept() => {
                tracing::debug!(%reason, "a kept IMAP connection was dead");
                lease.connection().give_up();
                drop(lease);
                let mut lease = self.lease(Wanted { is_new: true, ..wanted }).await?;
                let output = job.run(lease.connection()).await?;
                Ok((output, lease))
            }
            _ => Ok((outcome?, lease)),
        }
    }

    /// Does work on a connection of the mailbox.
    pub(crate) async fn run<J: Job>(
        &self,
        mailbox: &EmailAddress,
        folder: Option<&FolderName>,
        job: &J,
    ) -> Result<J::Output, MailboxError> {
        self.run_keeping(mailbox, folder, job).await.map(|(output, _)| output)
    }

    /// Does work on a connection of the mailbox, preferably one that does not have the folder open, and leaves to
    /// others one that has.
    pub(crate) async fn run_beside<J: Job>(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        job: &J,
    ) -> Result<J::Output, MailboxError> {
        let wanted = Wanted { mailbox, open: Open::Other(folder), is_new: false };
        self.run_wanted(wanted, job).await.map(|(output, _)| output)
    }

    async fn lease(&self, wanted: Wanted<'_>) -> Result<Lease, MailboxError> {
        let shared = &self.shared;
        if shared.unknown_mailboxes.contains_key(wanted.mailbox) {
            return Err(MailboxError::NoSuchMailbox);
        }
        let found = timeout(shared.settings.wait_timeout, shared.kept_or_room(wanted)).await;
        match found {
            Ok((Some(connection), place)) => Ok(Lease::new(shared.clone(), connection, place, true)),
            Ok((None, place)) => {
                let dialed = shared.dialer.dial(wanted.mailbox).await;
                if dialed.as_ref().err() == Some(&MailboxError::NoSuchMailbox) {
                    shared.remember_unknown(wanted.mailbox, &place);
                }
                Ok(Lease::new(shared.clone(), dialed?, place, false))
            }
            Err(_) => Err(MailboxError::Unavailable("all IMAP connections are in use".to_owned())),
        }
    }
}

/// Why work on a kept connection failed that may succeed on a new one: it is dead, or the folder that it has open was
/// renamed or replaced meanwhile, which Dovecot calls an internal error.
fn stale_reason(error: &ImapError) -> Option<String> {
    match error {
        ImapError::Broken(reason) => Some(reason.clone()),
        ImapError::Refused(status) if status.code == Some(Code::ServerBug) => Some(status.text.clone()),
        ImapError::Refused(_) | ImapError::Told(_) => None,
    }
}

impl Shared {
    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is a connection or room for one.
    async fn kept_or_room(self: &Arc<Self>, wanted: Wanted<'_>) -> (Option<ImapConnection>, Place) {
        loop {
            // Made before looking, so that nothing that is given back in between is missed.
            let given_back = self.given_back.notified();
            let found = self.places().find(wanted, &self.settings, &Arc::downgrade(self));
            match found {
                Found::Kept(kept) => return (Some(kept.connection), kept.place),
                Found::Room(place) => return (None, place),
                Found::Closing(closing) => drop(closing),
                Found::Full => given_back.await,
            }
        }
    }

    /// The mailbox may have been made since the log-in began.
    fn remember_unknown(&self, mailbox: &EmailAddress, place: &Place) {
        let places = self.places();
        if places.is_current(place) {
            self.unknown_mailboxes.insert(mailbox.clone(), ());
        }
    }

    pub(super) fn keep(&self, connection: ImapConnection, place: Place) {
        let outdated = self.places().keep(connection, place);
        drop(outdated);
        self.given_back.notify_waiters();
    }

    pub(super) fn vacate(&self, mailbox: &EmailAddress) {
        self.places().vacate(mailbox);
        self.given_back.notify_waiters();
    }
}
