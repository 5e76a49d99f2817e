//! The parts put together.

use std::sync::Arc;

use mailapi_backend::{Backend, DeliveryFeed, InboundLog, SubmitError};
use mailapi_model::{Clock, EmailAddress};
use mailapi_tls::{TlsError, Trust, client_config};

use crate::bounces::{BounceFeed, BounceSettings, ReturnAddressError};
use crate::delivery_feed::{FollowedElsewhere, HostLog};
use crate::doveadm::{Doveadm, DoveadmError, DoveadmSettings};
use crate::imap_pool::{ImapPool, ImapSettings};
use crate::log_follower::{FollowerError, FollowerStatus, LogFollower, LogSettings};
use crate::mailboxes::{ImapMailboxes, ImapPurge, MailboxSettings, Purge};
use crate::provisioning::SharedDatabase;
use crate::search_index::{IndexUse, SearchIndex, SearchSettings};
use crate::smtp_pool::{SmtpPool, SmtpSettings};
use crate::submission::{Relaying, SmtpSubmission};

/// Everything that the operator decides about the mail server.
#[derive(Debug, Clone)]
pub struct ExternalSettings {
    /// Where mail is handed over.
    pub smtp: SmtpSettings,
    /// Where mailboxes are read.
    pub imap: ImapSettings,
    /// How much of messages is fetched and remembered.
    pub mailboxes: MailboxSettings,
    /// An index of our own for searches.
    pub search: SearchSettings,
    /// The mail server's log; none where another process follows it.
    pub log: Option<LogSettings>,
    /// The name of the host whose log it is, where several hosts share a database.
    pub log_host: Option<String>,
    /// The mailbox that bounces go to; without it they go to the author of the message.
    pub bounces: Option<BounceSettings>,
    /// Dovecot's administration; without it, mail is removed over IMAP.
    pub doveadm: Option<DoveadmSettings>,
    /// Who may vouch for the servers' certificates.
    pub trust: Trust,
}

/// A mail server of the operator's own.
pub struct External {
    backend: Backend,
    submission: Arc<SmtpSubmission>,
    pool: ImapPool,
    mailboxes: Arc<ImapMailboxes>,
    log: Option<Arc<LogFollower>>,
    doveadm: Option<Arc<Doveadm>>,
}

/// Why it cannot be used at all. A server that does not answer at the moment is no reason.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nobody could vouch for a certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// What has to outlive a restart cannot be kept.
    #[error(transparent)]
    Follower(#[from] FollowerError),
    /// Bounces cannot go to the mailbox that was named.
    #[error("the mailbox for bounces: {0}")]
    Bounces(#[from] ReturnAddressError),
}

impl External {
    /// Puts the parts together; connects to nobody yet. Mail from outside is told to `inbound` as the log is read.
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
        let follower = |log| Ok::<_, FollowerError>(Arc::new(LogFollower::new(log, clock)?.with_inbound_log(inbound)));
        let log = settings.log.map(follower).transpose()?;
        let bounces = settings.bounces.map(|bounces| BounceFeed::new(pool.clone(), bounces)).transpose()?;
        let returns = bounces.as_ref().map(|bounces| bounces.return_addresses().clone());
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
        let backend = Backend {
            submission: submission.clone(),
            mailboxes: mailboxes.clone(),
            delivery_feed: feed,
            bounce_feed: bounces.map(|bounces| Arc::new(bounces) as Arc<dyn DeliveryFeed>),
            provisioning: Arc::new(SharedDatabase::new(mailboxes.clone(), doveadm.clone())),
        };
        Ok(Self { backend, submission, pool, mailboxes, log, doveadm })
    }

    /// The port to it.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend.clone()
    }

    /// The pooled connections to the IMAP server.
    #[must_use]
    pub const fn imap_pool(&self) -> &ImapPool {
        &self.pool
    }

    /// Its mailboxes, which keep an index for searches.
    #[must_use]
    pub const fn mailboxes(&self) -> &Arc<ImapMailboxes> {
        &self.mailboxes
    }

    /// How the log follower stands; `None` where another process follows the log.
    #[must_use]
    pub fn log_status(&self) -> Option<FollowerStatus> {
        self.log.as_ref().map(|log| log.status())
    }

    /// Lets go of what is remembered of a mailbox, kept connections included.
    pub fn forget(&self, mailbox: &EmailAddress) {
        self.mailboxes.forget(mailbox);
    }

    /// Whether the SMTP server takes mail for other domains; no message is sent.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn check_relaying(&self) -> Result<Relaying, SubmitError> {
        self.submission.relaying().await
    }

    /// Whether Dovecot's administration answers; `None` where there is none.
    pub async fn check_doveadm(&self) -> Option<Result<(), DoveadmError>> {
        match &self.doveadm {
            Some(doveadm) => Some(doveadm.check().await),
            None => None,
        }
    }
}
