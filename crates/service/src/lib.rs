//! What each operation of mailapi does. One file an operation, in the folders of the contract's eight areas.
//!
//! Nothing here knows HTTP, a command line, or which mail server or database is behind it. Callers come as a
//! [`Caller`], whose grants every operation asks first; outcomes and errors are types that each outer layer puts into
//! its own words.

pub mod auth;
pub mod domains;
pub mod health;
pub mod mail;
pub mod mailbox;
pub mod permissions;
pub mod stats;
pub mod tokens;
pub mod users;

mod cache;
mod caller;
mod error;
mod name_locks;
mod reconcile;
mod recovery;
mod settings;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use mailapi_backend::Quarantined;
use mailapi_backend::{Backend, Dns};
pub use mailapi_backend::{Buffer, BufferError, BufferWriter};
use mailapi_model::{Clock, Entropy};
use mailapi_store::Store;

pub use caller::Caller;
pub use error::Unavailable;
pub use reconcile::Reconciled;
pub use recovery::Recovered;
pub use settings::{Settings, is_local_name};

use crate::auth::{CallerCache, FailedLogins, HashingThreads, LastUsed, SignUpWindows};
use crate::cache::Epoch;
use crate::domains::SendingDomains;
use crate::health::LastChecks;
use crate::mail::{AccountAges, SentToday};
use crate::mailbox::KnownMailboxes;
use crate::recovery::InFlight;
use crate::stats::InboundTally;

/// All operations. Cheap to clone; every clone is the same service.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

/// What the operations work with; whoever starts the service puts it together.
pub struct Parts {
    /// Accounts, tokens, sent mail, delivery events.
    pub store: Store,
    /// The mail server.
    pub backend: Backend,
    /// The domain name system.
    pub dns: Arc<dyn Dns>,
    /// The clock that everything goes by.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness that everything draws from.
    pub entropy: Arc<dyn Entropy>,
    /// Where large messages lie on their way.
    pub buffer: Buffer,
    /// What the operator decided.
    pub settings: Settings,
}

struct Inner {
    store: Store,
    backend: Backend,
    dns: Arc<dyn Dns>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    buffer: Buffer,
    settings: Settings,
    epoch: Epoch,
    callers: CallerCache,
    sending_domains: SendingDomains,
    known_mailboxes: KnownMailboxes,
    account_ages: AccountAges,
    last_used: LastUsed,
    failed_logins: FailedLogins,
    sign_ups: SignUpWindows,
    in_flight: InFlight,
    sent_today: SentToday,
    inbound: InboundTally,
    last_checks: LastChecks,
    /// Whether the last sync of the whole user database failed.
    directory_failed: AtomicBool,
    hashing: HashingThreads,
}

impl Service {
    /// The service over these parts; starts nothing.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { store, backend, dns, clock, entropy, buffer, settings } = parts;
        Self(Arc::new(Inner {
            epoch: Epoch::new(store.foreign_changes()),
            callers: CallerCache::new(settings.cached_callers),
            sending_domains: SendingDomains::new(settings.cached_domains),
            known_mailboxes: KnownMailboxes::new(settings.cached_callers),
            account_ages: AccountAges::new(settings.cached_callers),
            last_used: LastUsed::default(),
            failed_logins: FailedLogins::default(),
            sign_ups: SignUpWindows::default(),
            in_flight: InFlight::default(),
            sent_today: SentToday::default(),
            inbound: InboundTally::default(),
            last_checks: LastChecks::default(),
            directory_failed: AtomicBool::new(false),
            hashing: HashingThreads::new(settings.concurrent_hashes),
            store,
            backend,
            dns,
            clock,
            entropy,
            buffer,
            settings,
        }))
    }

    /// How it was set up.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The clock that everything here goes by.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// The source of randomness that everything here draws from.
    #[must_use]
    pub fn entropy(&self) -> &Arc<dyn Entropy> {
        &self.0.entropy
    }

    /// Where large messages lie on their way.
    #[must_use]
    pub fn buffer(&self) -> &Buffer {
        &self.0.buffer
    }
}
