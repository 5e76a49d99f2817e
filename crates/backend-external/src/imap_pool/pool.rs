//! The pool: finds or opens a connection for each job.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mailapi_backend::MailboxError;
use mailapi_imap::client::Code;
use mailapi_model::{EmailAddress, FolderName};
use quick_cache::sync::Cache;
use rustls::ClientConfig;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::connection::ImapConnection;
use super::connection_slots::{ConnectionPermit, ConnectionSlots, Found, Open, Wanted};
use super::dial::Dialer;
use super::error::ImapError;
use super::job::Job;
use super::pooled_connection::PooledConnection;
use super::settings::ImapSettings;

/// Connections to one IMAP server. Clones share them.
#[derive(Clone)]
pub struct ImapPool {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    settings: ImapSettings,
    dialer: Dialer,
    slots: Mutex<ConnectionSlots>,
    /// Notified whenever a connection or a slot is returned.
    given_back: Notify,
    /// Mailboxes that did not exist at their last login, with its time.
    unknown_mailboxes: Cache<EmailAddress, Instant>,
}

impl ImapPool {
    /// Creates an empty pool. `tls` is unused with [`crate::TlsMode::None`].
    #[must_use]
    pub fn new(settings: ImapSettings, tls: Arc<ClientConfig>) -> Self {
        let unknown_mailboxes = Cache::new(settings.unknown_mailboxes);
        let shared = Shared {
            dialer: Dialer::new(settings.clone(), tls),
            settings,
            slots: Mutex::default(),
            given_back: Notify::new(),
            unknown_mailboxes,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Checks that the server can be reached, without a login.
    ///
    /// # Errors
    /// The reason, as a short text.
    pub async fn check(&self) -> Result<(), String> {
        self.shared.dialer.check().await
    }

    /// Returns the number of connections, in use and idle.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.slots().len()
    }

    /// Closes connections that were idle for [`ImapSettings::idle_lifetime`], and returns their number. Every request
    /// does the same, so a periodic call only matters without requests.
    pub fn close_idle(&self) -> usize {
        let expired = self.shared.slots().take_expired(self.shared.settings.idle_lifetime);
        expired.len()
    }

    /// Closes the idle connections of a mailbox at once, and those in use when their work ends. For a mailbox that
    /// was removed, created, or changed from outside.
    pub fn forget(&self, mailbox: &EmailAddress) {
        let closing = {
            let mut slots = self.shared.slots();
            // Under the lock, so that a login that began earlier cannot add the mailbox again.
            self.shared.unknown_mailboxes.remove(mailbox);
            slots.forget(mailbox)
        };
        // Dropping a connection frees its slot, which takes the lock.
        drop(closing);
    }

    /// Runs a job on a connection of the mailbox, preferably one that has the folder open. Returns the connection
    /// too, for a caller that has not read everything yet.
    pub(crate) async fn run_keeping<J: Job>(
        &self,
        mailbox: &EmailAddress,
        folder: Option<&FolderName>,
        job: &J,
    ) -> Result<(J::Output, PooledConnection), MailboxError> {
        self.run_wanted(Wanted { mailbox, open: Open::like(folder), is_new: false }, job).await
    }

    async fn run_wanted<J: Job>(
        &self,
        wanted: Wanted<'_>,
        job: &J,
    ) -> Result<(J::Output, PooledConnection), MailboxError> {
        let mut pooled = self.checkout(wanted).await?;
        let outcome = job.run(pooled.connection()).await;
        match outcome.as_ref().err().and_then(stale_reason) {
            Some(reason) if pooled.was_kept() => {
                tracing::debug!(%reason, "discarded a closed IMAP connection; retrying on another one");
                pooled.connection().give_up();
                // The slot must be free before another one is requested.
                drop(pooled);
                let mut pooled = self.checkout(Wanted { is_new: true, ..wanted }).await?;
                let output = job.run(pooled.connection()).await?;
                Ok((output, pooled))
            }
            _ => Ok((outcome?, pooled)),
        }
    }

    /// Runs a job on a connection of the mailbox.
    pub(crate) async fn run<J: Job>(
        &self,
        mailbox: &EmailAddress,
        folder: Option<&FolderName>,
        job: &J,
    ) -> Result<J::Output, MailboxError> {
        self.run_keeping(mailbox, folder, job).await.map(|(output, _)| output)
    }

    /// Runs a job on a connection of the mailbox, preferably one that does not have the folder open. This leaves
    /// connections with the open folder to other requests.
    pub(crate) async fn run_beside<J: Job>(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        job: &J,
    ) -> Result<J::Output, MailboxError> {
        let wanted = Wanted { mailbox, open: Open::Other(folder), is_new: false };
        self.run_wanted(wanted, job).await.map(|(output, _)| output)
    }

    async fn checkout(&self, wanted: Wanted<'_>) -> Result<PooledConnection, MailboxError> {
        let shared = &self.shared;
        let tried_at = shared.unknown_mailboxes.get(wanted.mailbox);
        if tried_at.is_some_and(|at| at.elapsed() < shared.settings.unknown_mailbox_pause) {
            return Err(MailboxError::NoSuchMailbox);
        }
        let found = timeout(shared.settings.wait_timeout, shared.kept_or_room(wanted)).await;
        match found {
            Ok((Some(connection), permit)) => Ok(PooledConnection::new(shared.clone(), connection, permit, true)),
            Ok((None, permit)) => {
                let dialed = shared.dialer.dial(wanted.mailbox).await;
                if dialed.as_ref().err() == Some(&MailboxError::NoSuchMailbox) {
                    shared.remember_unknown(wanted.mailbox, &permit);
                }
                Ok(PooledConnection::new(shared.clone(), dialed?, permit, false))
            }
            Err(_) => Err(MailboxError::Unavailable("all IMAP connections are in use".to_owned())),
        }
    }
}

/// Returns why a job that failed on an idle connection may succeed on a new one. Either the connection is dead, or
/// its open folder was renamed or replaced, which Dovecot reports as a server bug.
fn stale_reason(error: &ImapError) -> Option<String> {
    match error {
        ImapError::Broken(reason) => Some(reason.clone()),
        ImapError::Refused(status) if status.code == Some(Code::ServerBug) => Some(status.text.clone()),
        ImapError::Refused(_) | ImapError::Mailbox(_) => None,
    }
}

impl Shared {
    fn slots(&self) -> MutexGuard<'_, ConnectionSlots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for an idle connection or a free slot.
    async fn kept_or_room(self: &Arc<Self>, wanted: Wanted<'_>) -> (Option<ImapConnection>, ConnectionPermit) {
        loop {
            // Created before the look-up, so that a connection returned in between is not missed.
            let given_back = self.given_back.notified();
            let found = self.slots().find(wanted, &self.settings, &Arc::downgrade(self));
            match found {
                Found::Kept(kept) => return (Some(kept.connection), kept.permit),
                Found::Room(permit) => return (None, permit),
                Found::Closing(closing) => drop(closing),
                Found::Full => given_back.await,
            }
        }
    }

    /// Remembers a mailbox that does not exist, unless it was created since the login began.
    fn remember_unknown(&self, mailbox: &EmailAddress, permit: &ConnectionPermit) {
        // The lock orders this against `ImapPool::forget`.
        let slots = self.slots();
        if slots.is_current(permit) {
            self.unknown_mailboxes.insert(mailbox.clone(), Instant::now());
        }
    }

    pub(super) fn keep(&self, connection: ImapConnection, permit: ConnectionPermit) {
        let outdated = self.slots().keep(connection, permit);
        drop(outdated);
        self.given_back.notify_waiters();
    }

    pub(super) fn vacate(&self, mailbox: &EmailAddress) {
        self.slots().vacate(mailbox);
        self.given_back.notify_waiters();
    }
}
