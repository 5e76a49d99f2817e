//! The operations of mailapi: one file per operation, in the folders of the contract's eight areas.
//!
//! This crate is independent of HTTP, the command line, the mail server and the database. Each operation first
//! checks the grants of its [`Caller`]. The outer layers translate results and errors into their own form.

pub mod aliases;
pub mod auth;
pub mod domains;
pub mod events;
pub mod health;
pub mod mail;
pub mod mailbox;
pub mod permissions;
pub mod queue;
pub mod stats;
pub mod tokens;
pub mod users;
pub mod webhooks;

mod cache;
mod caller;
mod dns_names;
mod error;
mod monitoring;
mod name_locks;
mod pruning;
mod reconcile;
mod recovery;
mod settings;

use std::sync::Arc;

pub use mailapi_backend::Quarantined;
use mailapi_backend::{Backend, Dns, ZoneDns};
pub use mailapi_backend::{Buffer, BufferError, BufferWriter, DnsError};
use mailapi_model::{AppPasswordId, Clock, Entropy, TokenId};
use mailapi_rspamd::Rspamd;
use mailapi_store::Store;
use tokio::sync::{Mutex, Notify};

pub use caller::Caller;
pub use error::Unavailable;
pub use mailapi_hosted_dns::AgentProgram;
pub use mailapi_metrics::Metrics;
pub use pruning::ExpiringRows;
pub use reconcile::Reconciled;
pub use recovery::Recovered;
pub use settings::{MailPrograms, Settings, WebhookSettings, is_local_name};

use crate::auth::{CallerCache, FailedLogins, HashingThreads, LastUsed, SignUpWindows};
use crate::cache::Epoch;
use crate::domains::SendingDomains;
use crate::events::EventReader;
use crate::health::LastChecks;
use crate::mail::{AccountAges, GreylistSize, LossesStored, SentToday, Verifier};
use crate::mailbox::{Analyses, KnownMailboxes};
use crate::monitoring::LastMeasured;
use crate::recovery::InFlight;
use crate::stats::{InboundTally, Refusals};
use crate::users::DirectoryState;
use crate::webhooks::WebhookState;

/// All operations. Clones are cheap and share their state.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

/// The dependencies of the operations.
pub struct Parts {
    /// Accounts, tokens, sent mail, delivery events.
    pub store: Store,
    /// The mail server.
    pub backend: Backend,
    /// The DNS resolver.
    pub dns: Arc<dyn Dns>,
    /// A DNS resolver without a cache, for checks of a domain's records. They see a new or corrected record at once.
    pub fresh_dns: Arc<dyn Dns>,
    /// The name servers of zones.
    pub zone_dns: Arc<dyn ZoneDns>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The buffer for large messages in transit.
    pub buffer: Buffer,
    /// The metrics.
    pub metrics: Metrics,
    /// The operator's settings.
    pub settings: Settings,
}

struct Inner {
    store: Store,
    backend: Backend,
    dns: Arc<dyn Dns>,
    fresh_dns: Arc<dyn Dns>,
    zone_dns: Arc<dyn ZoneDns>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    buffer: Buffer,
    metrics: Metrics,
    settings: Settings,
    epoch: Epoch,
    callers: CallerCache,
    sending_domains: SendingDomains,
    known_mailboxes: KnownMailboxes,
    account_ages: AccountAges,
    last_used: LastUsed<TokenId>,
    app_passwords_used: LastUsed<AppPasswordId>,
    failed_logins: FailedLogins,
    sign_ups: SignUpWindows,
    in_flight: InFlight,
    sent_today: SentToday,
    inbound: InboundTally,
    verifier: Verifier,
    rspamd: Option<Rspamd>,
    refusals: Refusals,
    greylist: GreylistSize,
    events: EventReader,
    webhooks: WebhookState,
    last_checks: LastChecks,
    last_measured: LastMeasured,
    /// Held while a batch of the delivery feed is read and stored.
    following: Mutex<()>,
    /// The lost reports that are stored as events.
    losses_stored: LossesStored,
    /// Raised when received mail was stored that has no event.
    mail_received: Notify,
    /// What the last sync with the external user database found.
    directory_state: DirectoryState,
    hashing: HashingThreads,
    analyses: Analyses,
}

impl Service {
    /// Creates the service; starts nothing.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { store, backend, dns, fresh_dns, zone_dns, clock, entropy, buffer, metrics, settings } = parts;
        Self(Arc::new(Inner {
            epoch: Epoch::new(store.foreign_changes()),
            callers: CallerCache::new(settings.cached_callers),
            sending_domains: SendingDomains::new(settings.cached_domains),
            known_mailboxes: KnownMailboxes::new(settings.cached_callers),
            account_ages: AccountAges::new(settings.cached_callers),
            last_used: LastUsed::default(),
            app_passwords_used: LastUsed::default(),
            failed_logins: FailedLogins::default(),
            sign_ups: SignUpWindows::default(),
            in_flight: InFlight::default(),
            sent_today: SentToday::default(),
            inbound: InboundTally::default(),
            verifier: Verifier::default(),
            rspamd: settings.inbound.rspamd.clone().map(Rspamd::new),
            refusals: Refusals::default(),
            greylist: GreylistSize::default(),
            events: EventReader::default(),
            webhooks: WebhookState::new(Arc::clone(&dns), &settings),
            last_checks: LastChecks::default(),
            last_measured: LastMeasured::default(),
            following: Mutex::default(),
            losses_stored: LossesStored::default(),
            mail_received: Notify::new(),
            directory_state: DirectoryState::default(),
            hashing: HashingThreads::new(settings.concurrent_hashes),
            analyses: Analyses::default(),
            store,
            backend,
            dns,
            fresh_dns,
            zone_dns,
            clock,
            entropy,
            buffer,
            metrics,
            settings,
        }))
    }

    /// Notes a stored change of accounts, domains, tokens or permissions: cached values are not used again, and the
    /// reader of events looks for its event.
    pub(crate) fn changed(&self) {
        self.0.epoch.end();
        self.0.events.wake();
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// The source of randomness.
    #[must_use]
    pub fn entropy(&self) -> &Arc<dyn Entropy> {
        &self.0.entropy
    }

    /// The buffer for large messages in transit.
    #[must_use]
    pub fn buffer(&self) -> &Buffer {
        &self.0.buffer
    }
}
