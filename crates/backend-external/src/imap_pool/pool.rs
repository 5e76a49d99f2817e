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
use super::connection_slots::{ConnectionPermit, ConnectionSlots, Found, Open, Wanted};
use super::dial::Dialer;
use super::error::ImapError;
use super::job::Job;
use super::pooled_connection::PooledConnection;
use super::settings::ImapSettings;

/// Connections to one IMAP server; clones share them.
#[derive(Clone)]
pub struct ImapPool {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    settings: ImapSettings,
    dialer: Dialer,
    slots: Mutex<ConnectionSlots>,
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
            slots: Mutex::default(),
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
        let expired = self.shared.slots().take_expired(self.shared.settings.idle_lifetime);
        expired.len()
    }

    /// Closes the kept connections of a mailbox, and those in use when their work ends: it was removed, made, or changed
    /// from outside.
    pub fn forget(&self, mailbox: &EmailAddress) {
        let closing = {
            let mut slots = self.shared.slots();
            // Under the lock, so that no log-in that began earlier adds the mailbox again.
            self.shared.unknown_mailboxes.invalidate(mailbox);
            slots.forget(mailbox)
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
                tracing::debug!(%reason, "a kept IMAP connection was dead");
                pooled.connection().give_up();
                drop(pooled);
                let mut pooled = self.checkout(Wanted { is_new: true, ..wanted }).await?;
                let output = job.run(pooled.connection()).await?;
                Ok((output, pooled))
            }
            _ => Ok((outcome?, pooled)),
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

    async fn checkout(&self, wanted: Wanted<'_>) -> Result<PooledConnection, MailboxError> {
        let shared = &self.shared;
        if shared.unknown_mailboxes.contains_key(wanted.mailbox) {
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
    fn slots(&self) -> MutexGuard<'_, ConnectionSlots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is a connection or room for one.
    async fn kept_or_room(self: &Arc<Self>, wanted: Wanted<'_>) -> (Option<ImapConnection>, ConnectionPermit) {
        loop {
            // Made before looking, so that nothing that is given back in between is missed.
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

    /// The mailbox may have been made since the log-in began.
    fn remember_unknown(&self, mailbox: &EmailAddress, permit: &ConnectionPermit) {
        let slots = self.slots();
        if slots.is_current(permit) {
            self.unknown_mailboxes.insert(mailbox.clone(), ());
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
