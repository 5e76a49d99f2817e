//! The PostgreSQL engine: connection pool, retries after conflicts, migrations, and notifications from other
//! nodes.
//!
//! Any number of nodes may share one database. A node that loses its connections returns
//! [`StoreError::Unavailable`], and recovers as soon as the server does.

mod connections;
pub(crate) mod failure;
mod foreign;
mod listener;
mod migrate;
mod names;
mod numbered;
mod pooled_connection;
mod settings;
mod tls;
mod url;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use mailapi_model::{Entropy, Timestamp};
use tokio::sync::{OwnedRwLockReadGuard, RwLock, Semaphore};
use tokio::time::sleep;

pub(crate) use foreign::ForeignPostgres;
pub(crate) use names::NamesHeld;
pub(crate) use numbered::Numbered;
pub use settings::PostgresSettings;
pub use url::{PostgresUrl, PostgresUrlError};

use crate::db::postgres::{self as statements, Work};
use crate::db::{Effect, Stmt};
use crate::fact_numbers::FactNumbers;
use crate::migration::Migration;
use crate::{ForeignChanges, StoreError};
use connections::{Connections, Target};
use failure::Failed;
use listener::{Line, Listener};
use names::Holders;

/// One connection that holds a name lock, and one to work on.
const LEAST_CONNECTIONS: usize = 2;
/// Time for which the end waits for running work.
const LONGEST_END: Duration = Duration::from_secs(5);
/// The first pause before a retry after a conflict; each further pause doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// Successive pauses vary by up to this factor.
const SPREAD: u32 = 8;

/// A PostgreSQL database; clones share its connections.
#[derive(Clone)]
pub struct Postgres(Arc<Inner>);

struct Inner {
    connections: Connections,
    scans: Semaphore,
    holders: Holders,
    listener: Listener,
    settings: PostgresSettings,
    retries: AtomicU32,
    facts: FactNumbers,
    numbered: Numbered,
    /// Whether the engine is open. Work holds a read lock, so that closing waits for it.
    open: Arc<RwLock<bool>>,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("connections", &self.0.connections.count()).finish_non_exhaustive()
    }
}

impl Postgres {
    /// Connects to the server, checks that it is usable, and listens for changes by other nodes.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] with the reason when the server cannot be reached or refuses the
    /// connection; [`StoreError::Unexpected`] when the database encoding is not UTF-8.
    pub async fn open(url: PostgresUrl, settings: PostgresSettings, entropy: &dyn Entropy) -> Result<Self, StoreError> {
        let node = node_name(entropy);
        let tls = tls::connector(&url.trust)?;
        let password = url.password();
        let target = Target { config: config(url, &settings, &node), password };
        let count = settings.connections.max(LEAST_CONNECTIONS);
        let connections = Connections::new(target.clone(), tls.clone(), count, settings.pool_timeout)?;
        // Listen before the first read, so that no change of a cached row is missed.
        let listener = Listener::start(Line { target, tls, node }, &settings).await?;
        let scans = Semaphore::new(settings.scan_connections.max(1));
        let holders = Holders::new((settings.connections / 4).max(1));
        let engine = Self(Arc::new(Inner {
            connections,
            scans,
            holders,
            listener,
            settings,
            retries: AtomicU32::new(0),
            facts: FactNumbers::of(writer_name(entropy)),
            numbered: Numbered::default(),
            open: Arc::new(RwLock::new(true)),
        }));
        // Other encodings cannot store every address and subject.
        engine.demand_utf8().await?;
        Ok(engine)
    }

    pub(crate) fn facts(&self) -> &FactNumbers {
        &self.0.facts
    }

    /// Returns how far events have their numbers.
    pub(crate) fn numbered(&self) -> &Numbered {
        &self.0.numbered
    }

    async fn demand_utf8(&self) -> Result<(), StoreError> {
        let encoding = Stmt::new("SELECT current_setting('server_encoding')");
        let mut effects = self.attempt(Work::Read(vec![encoding])).await?;
        let encoding = effects.pop().and_then(|mut effect| effect.rows.pop()).map(|mut row| row.text()).transpose()?;
        match encoding.as_deref() {
            Some("UTF8") => Ok(()),
            _ => Err(StoreError::unexpected("the database must be created with ENCODING 'UTF8'")),
        }
    }

    /// Applies the migrations of `component`; returns how many were applied. If several nodes call this at
    /// once, the others wait for the first.
    ///
    /// # Errors
    /// [`StoreError::NewerSchema`] when the database is newer than `migrations`; nothing is changed then.
    /// [`StoreError::Unexpected`] when a statement fails.
    pub async fn migrate(
        &self,
        component: &str,
        migrations: &[Migration],
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let (pooled, _permit) = self.0.connections.get().await?;
        // Detached, because the migration changes session settings and holds a session lock.
        let client = pooled.keep().ok_or_else(StoreError::closed)?;
        migrate::migrate(client, component, migrations, now).await
    }

    /// Runs the statements in one transaction. Once called, the work completes even if the caller stops
    /// waiting.
    pub(crate) async fn change(&self, work: Work) -> Result<Vec<Effect>, StoreError> {
        let (engine, entered) = (self.clone(), self.enter().await?);
        // A task of its own: a cancelled caller must not leave a transaction half sent.
        let running = tokio::spawn(async move {
            let _entered = entered;
            engine.attempt(work).await
        });
        match running.await {
            Ok(outcome) => outcome,
            Err(error) if error.is_panic() => Err(StoreError::Panicked),
            // The runtime is shutting down.
            Err(_) => Err(StoreError::closed()),
        }
    }

    /// Runs short queries on one snapshot.
    pub(crate) async fn read(&self, statements: Vec<Stmt>) -> Result<Vec<Effect>, StoreError> {
        let _entered = self.enter().await?;
        self.attempt(Work::Read(statements)).await
    }

    /// Runs long queries on one snapshot.
    pub(crate) async fn scan(&self, statements: Vec<Stmt>) -> Result<Vec<Effect>, StoreError> {
        let _entered = self.enter().await?;
        let _permit = self.0.scans.acquire().await.map_err(|_| StoreError::closed())?;
        self.attempt(Work::Scan(statements, self.0.settings.scan_timeout)).await
    }

    /// Registers work; closing the engine waits until the guard is dropped.
    async fn enter(&self) -> Result<OwnedRwLockReadGuard<bool>, StoreError> {
        let open = Arc::clone(&self.0.open).read_owned().await;
        if *open { Ok(open) } else { Err(StoreError::closed()) }
    }

    async fn attempt(&self, work: Work) -> Result<Vec<Effect>, StoreError> {
        let mut tries_left = self.0.settings.attempts;
        let mut pause = FIRST_PAUSE;
        loop {
            tries_left = tries_left.saturating_sub(1);
            let failed = match self.once(&work).await {
                Ok(effects) => return Ok(effects),
                Err(failed) => failed,
            };
            if !failed.again || tries_left == 0 {
                return Err(failed.error);
            }
            if !failed.broken {
                // Transactions that conflicted must not retry at the same moment.
                sleep(pause * (1 + self.0.retries.fetch_add(1, Ordering::Relaxed) % SPREAD)).await;
                pause *= 2;
            }
        }
    }

    /// Makes one attempt.
    async fn once(&self, work: &Work) -> Result<Vec<Effect>, Failed> {
        let (pooled, _permit) = self.0.connections.get().await.map_err(Failed::refused)?;
        let Some(client) = pooled.client() else { return Err(Failed::refused(StoreError::closed())) };
        forget_statements(client, self.0.settings.statement_cache);
        let outcome = tokio::time::timeout(self.patience(work), statements::run(client, work)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(Failed::timed_out()));
        // A broken connection is closed instead, which makes the server roll back.
        if outcome.as_ref().err().is_none_or(|failed| !failed.broken) {
            pooled.give_back();
        }
        outcome
    }

    fn patience(&self, work: &Work) -> Duration {
        let limit = match work {
            Work::Scan(_, limit) => *limit,
            Work::Change(..) | Work::Read(_) => self.0.settings.statement_timeout,
        };
        limit + self.0.settings.answer_grace
    }

    /// Returns the counter of changes by other nodes and other clients to cached tables: accounts, tokens,
    /// permissions, domains and keys.
    ///
    /// After a lost connection it grows by one, because notifications may have been missed.
    #[must_use]
    pub fn foreign_changes(&self) -> ForeignChanges {
        self.0.listener.changes()
    }

    /// Returns the counter of batches of events that other nodes numbered.
    ///
    /// After a lost connection it grows by one, because notifications may have been missed.
    #[must_use]
    pub fn foreign_events(&self) -> ForeignChanges {
        self.0.listener.events()
    }

    /// Waits for running work, up to a limit, and closes the connections. Later calls, on all clones, return
    /// [`StoreError::Unavailable`].
    pub async fn close(&self) {
        // Running work holds read locks, so this waits for it. Work of a database that hangs would keep the process, and its
        // lock on the data directory, from ending.
        match tokio::time::timeout(LONGEST_END, self.0.open.write()).await {
            Ok(mut open) => *open = false,
            Err(_) => tracing::warn!("the database does not answer; its unfinished work was dropped"),
        }
        self.0.scans.close();
        self.0.holders.close();
        self.0.listener.stop();
        self.0.connections.close();
    }
}

/// Clears a connection's cache of prepared statements when it grows too large: statements with lists come in
/// many lengths.
fn forget_statements(client: &ClientWrapper, most: usize) {
    if client.statement_cache.size() > most {
        client.statement_cache.clear();
    }
}

/// Returns a random name for this node.
fn node_name(entropy: &dyn Entropy) -> String {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a random name for the numbers of this handle's facts.
fn writer_name(entropy: &dyn Entropy) -> u64 {
    let mut bytes = [0; 8];
    entropy.fill(&mut bytes);
    u64::from_be_bytes(bytes)
}

/// Adds this server's options to the configured URL; options in the URL take precedence.
fn config(url: PostgresUrl, settings: &PostgresSettings, node: &str) -> tokio_postgres::Config {
    const PROBES: u32 = 3;
    let mut config = url.config;
    let given = config.get_options().map(|options| format!("{options} ")).unwrap_or_default();
    let limit = settings.statement_timeout.as_millis();
    // A node that freezes inside a transaction must not hold its locks forever. PostgreSQL overestimates recursive queries,
    // and would compile them for longer than any statement here runs.
    config.options(format!(
        "{given}-c mailapi.node={node} -c jit=off -c statement_timeout={limit} \
         -c idle_in_transaction_session_timeout={limit}"
    ));
    if config.get_application_name().is_none() {
        config.application_name("mailapi");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(settings.connect_timeout);
    }
    config.keepalives_idle(settings.keepalive).keepalives_interval(settings.keepalive / PROBES);
    config.keepalives_retries(PROBES).tcp_user_timeout(settings.keepalive * 2);
    config
}
