//! Assembles the backend from its parts.

use std::sync::Arc;

use mailapi_backend::{Backend, DeliveryFeed, InboundLog, SubmitError};
use mailapi_model::{Clock, EmailAddress};
use mailapi_tls::{TlsError, Trust, client_config};

use crate::bounces::{BounceFeed, BounceSettings, ReturnAddressError};
use crate::delivery_feed::{FollowedElsewhere, HostLog};
use crate::doveadm::{Doveadm, DoveadmError, DoveadmSettings};
use crate::imap_pool::{ImapPool, ImapSettings};
use crate::log_follower::{FollowerError, LogFollower, LogSettings};
use crate::mailboxes::{ImapMailboxes, ImapPurge, MailboxSettings, Purge};
use crate::provisioning::SharedDatabase;
use crate::queue::PostfixQueue;
use crate::search_index::{IndexUse, SearchIndex, SearchSettings};
use crate::smtp_pool::{SmtpPool, SmtpSettings};
use crate::submission::{Relaying, SmtpSubmission};

/// Settings of the external mail server.
#[derive(Debug, Clone)]
pub struct ExternalSettings {
    /// The SMTP server that accepts outgoing mail.
    pub smtp: SmtpSettings,
    /// The IMAP server that serves the mailboxes.
    pub imap: ImapSettings,
    /// Limits on fetched and cached messages.
    pub mailboxes: MailboxSettings,
    /// The local search index.
    pub search: SearchSettings,
    /// The mail server's log; `None` if another process follows it.
    pub log: Option<LogSettings>,
    /// The name of the host that writes the log, if several hosts share a database.
    pub log_host: Option<String>,
    /// The mailbox that receives bounces. Without it, bounces go to the author of the message.
    pub bounces: Option<BounceSettings>,
    /// Dovecot's administration interface. Without it, mail is removed over IMAP.
    pub doveadm: Option<DoveadmSettings>,
    /// Whether Dovecot applies the rules of mailboxes, which it reads from the account database.
    pub applies_rules: bool,
    /// The certificate authorities that are trusted for the servers' certificates.
    pub trust: Trust,
}

/// The backend for the operator's own mail server.
pub struct External {
    backend: Backend,
    submission: Arc<SmtpSubmission>,
    pool: ImapPool,
    mailboxes: Arc<ImapMailboxes>,
    log: Option<Arc<LogFollower>>,
    doveadm: Option<Arc<Doveadm>>,
}

/// An error that makes the backend unusable. A server that is currently unreachable is not one.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The trusted certificates cannot be loaded.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The log follower's saved state cannot be used.
    #[error(transparent)]
    Follower(#[from] FollowerError),
    /// The configured mailbox cannot receive bounces.
    #[error("the bounce mailbox: {0}")]
    Bounces(#[from] ReturnAddressError),
}

impl External {
    /// Assembles the parts without opening a connection. Mail that arrives from outside is reported to `inbound` as
    /// the log is read.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(
        settings: ExternalSettings,
        inbound: Arc<dyn InboundLog>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        let tls = client_config(&settings.trust)?;
        let pool = ImapPool::new(settings.imap, tls.clone());
        let doveadm = settings.doveadm.map(|doveadm| Arc::new(Doveadm::new(doveadm, tls.clone())));
        let purge: Arc<dyn Purge> = match &doveadm {
            Some(doveadm) => doveadm.clone(),
            None => Arc::new(ImapPurge::new(pool.clone())),
        };
        let mailboxes = ImapMailboxes::new(pool.clone(), settings.mailboxes, purge);
        let mailboxes = Arc::new(match settings.search.index {
            IndexUse::Off => {
                SearchIndex::remove_unused(&settings.search);
                mailboxes
            }
            IndexUse::Auto | IndexUse::On => {
                mailboxes.with_search_index(Arc::new(SearchIndex::new(settings.search, clock.clone())))
            }
        });
        let log_settings = settings.log.clone();
        let follower = |log| Ok::<_, FollowerError>(Arc::new(LogFollower::new(log, clock)?.with_inbound_log(inbound)));
        let log = settings.log.map(follower).transpose()?;
        let bounces = settings.bounces.map(|bounces| BounceFeed::new(pool.clone(), bounces)).transpose()?;
        let returns = bounces.as_ref().map(|bounces| bounces.return_addresses().clone());
        // The follower attributes log records to messages by their return addresses.
        if let (Some(log), Some(returns)) = (&log, &returns) {
            log.recognise(returns.clone());
        }
        let feed: Arc<dyn DeliveryFeed> = match &log {
            Some(log) => Arc::new(HostLog::new(log.clone(), settings.log_host.as_deref(), returns.clone())),
            None => Arc::new(FollowedElsewhere),
        };
        let smtp = SmtpPool::new(settings.smtp, tls);
        let submission = SmtpSubmission::new(smtp, log.clone()).returning_to(returns);
        let submission = Arc::new(submission.one_of_several(settings.log_host.is_some()));
        let queue = Arc::new(PostfixQueue::new(log_settings.as_ref(), log.clone()));
        let backend = Backend {
            submission: submission.clone(),
            mailboxes: mailboxes.clone(),
            delivery_feed: feed,
            bounce_feed: bounces.map(|bounces| Arc::new(bounces) as Arc<dyn DeliveryFeed>),
            provisioning: Arc::new(SharedDatabase::new(mailboxes.clone(), doveadm.clone(), settings.applies_rules)),
            queue,
        };
        Ok(Self { backend, submission, pool, mailboxes, log, doveadm })
    }

    /// Returns the backend port.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend.clone()
    }

    /// Returns the pool of IMAP connections.
    #[must_use]
    pub const fn imap_pool(&self) -> &ImapPool {
        &self.pool
    }

    /// Returns the mailboxes, including their search index.
    #[must_use]
    pub const fn mailboxes(&self) -> &Arc<ImapMailboxes> {
        &self.mailboxes
    }

    /// Returns the log follower; `None` if another process follows the log.
    #[must_use]
    pub const fn log_follower(&self) -> Option<&Arc<LogFollower>> {
        self.log.as_ref()
    }

    /// Drops the cached data and idle connections of a mailbox.
    pub fn forget(&self, mailbox: &EmailAddress) {
        self.mailboxes.forget(mailbox);
    }

    /// Checks whether the SMTP server relays mail to other domains, without sending a message.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn check_relaying(&self) -> Result<Relaying, SubmitError> {
        self.submission.relaying().await
    }

    /// Checks whether Dovecot's administration interface responds; `None` if it is not configured.
    pub async fn check_doveadm(&self) -> Option<Result<(), DoveadmError>> {
        match &self.doveadm {
            Some(doveadm) => Some(doveadm.check().await),
            None => None,
        }
    }
}
