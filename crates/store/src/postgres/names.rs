//! Locks on names, exclusive across all nodes.
//!
//! They are session-level advisory locks (PostgreSQL manual, section 13.3.5). They must outlast a
//! transaction, because the mail server is changed between two of them. The server releases them when the
//! connection ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::Postgres;
use super::pooled_connection::PooledConnection;
use crate::StoreError;
use crate::db::Stmt;
use crate::db::postgres::Work;
use crate::name_locks::LockedName;

/// The first key of the advisory locks, the same on all nodes and in all versions. The second key is a hash
/// of the name.
const DOMAINS: i32 = 0x6d61_0001;
const ADDRESSES: i32 = 0x6d61_0002;

const UNLOCK: &str = "SELECT pg_advisory_unlock_all()";

/// The first and the longest pause before retrying a name that another node holds.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// How long to wait for a working connection before the one that holds the name is released.
const PROOF: Duration = Duration::from_millis(250);

/// Names locked by one connection.
#[derive(Debug)]
pub(crate) struct NamesHeld(Option<Box<Held>>);

#[derive(Debug)]
struct Held {
    pooled: PooledConnection,
    /// Its slot among the connections, and its slot among the operations that hold names.
    _permits: [OwnedSemaphorePermit; 2],
    _counted: Counted,
}

/// The operations of this process that hold names. Each occupies one connection and works on another.
pub(super) struct Holders {
    permits: Arc<Semaphore>,
    count: Arc<watch::Sender<usize>>,
    /// Serialises operations that take a connection to hold a name: each must prove that another connection
    /// is left to work on.
    taking: Mutex<()>,
}

/// Counts one operation that holds names, until it is dropped.
#[derive(Debug)]
struct Counted(Arc<watch::Sender<usize>>);

impl Holders {
    pub(super) fn new(most: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(most)), count: Arc::default(), taking: Mutex::default() }
    }

    pub(super) fn close(&self) {
        self.permits.close();
    }
}

impl Counted {
    fn new(count: &Arc<watch::Sender<usize>>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl Postgres {
    /// Waits until no other operation on any node holds the name, then locks it. The caller bounds the wait.
    ///
    /// An operation that waits for another node occupies no connection meanwhile. At least one connection is
    /// always left to work on.
    pub(crate) async fn hold_names(&self, of: LockedName<'_>) -> Result<NamesHeld, StoreError> {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(held) = self.try_to_hold(of).await? {
                return Ok(held);
            }
            sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Locks the name; returns `None` if another operation holds it.
    async fn try_to_hold(&self, of: LockedName<'_>) -> Result<Option<NamesHeld>, StoreError> {
        let holders = &self.0.holders;
        let permit = holders.permits.clone().acquire_owned().await.map_err(|_| StoreError::closed())?;
        // Two operations must not count the same connection as left to work on.
        let _taking = holders.taking.lock().await;
        loop {
            self.connections_for_one_more().await;
            let (pooled, connection) = self.0.connections.get().await?;
            if !self.try_locks(&pooled, of).await? {
                self.let_go(pooled).await;
                return Ok(None);
            }
            if self.can_work().await {
                let _counted = Counted::new(&holders.count);
                return Ok(Some(NamesHeld(Some(Box::new(Held { pooled, _permits: [connection, permit], _counted })))));
            }
            self.let_go(pooled).await;
            drop(connection);
            // Running work needs the connection that was just released.
            sleep(LONGEST_PAUSE).await;
        }
    }

    /// Waits while held names leave only one connection to work on.
    async fn connections_for_one_more(&self) {
        let mut count = self.0.holders.count.subscribe();
        // The server may allow more connections before one of the held ones ends.
        while timeout(LONGEST_PAUSE, count.wait_for(|held| held + 2 <= self.0.connections.count_allowed()))
            .await
            .is_err()
        {}
    }

    /// Tries to take all locks without waiting. On `false`, some of them may be held.
    async fn try_locks(&self, pooled: &PooledConnection, of: LockedName<'_>) -> Result<bool, StoreError> {
        let Some(client) = pooled.client() else { return Err(StoreError::closed()) };
        for lock in locks(of) {
            let work = Work::Read(vec![lock]);
            // On failure the connection is closed, which releases its locks.
            let tried = timeout(self.patience(&work), crate::db::postgres::run(client, &work)).await;
            let mut effects =
                tried.unwrap_or_else(|_| Err(super::Failed::timed_out())).map_err(|failed| failed.error)?;
            let row = effects.pop().and_then(|mut effect| effect.rows.pop());
            if row.map(|mut row| row.text()).transpose()?.as_deref() != Some("true") {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether a connection is free to work on.
    async fn can_work(&self) -> bool {
        let engine = self.clone();
        // Opening a connection may take longer than this wait. The task continues, so that the next attempt
        // finds it open.
        let another = tokio::spawn(async move {
            let another = engine.0.connections.get().await;
            another.map(|(pooled, _permit)| pooled.give_back()).is_ok()
        });
        matches!(timeout(PROOF, another).await, Ok(Ok(true)))
    }

    /// Releases all locks of the connection and returns it to the pool.
    async fn let_go(&self, pooled: PooledConnection) {
        let Some(client) = pooled.client() else { return };
        if let Ok(Ok(())) = timeout(self.0.settings.statement_timeout, client.batch_execute(UNLOCK)).await {
            pooled.give_back();
        }
    }
}

/// The domain is locked first on every node, which avoids deadlocks.
fn locks(of: LockedName<'_>) -> Vec<Stmt> {
    let lock = |function: &str, kind: i32, name: &str| {
        Stmt::new(format!("SELECT CAST({function}({kind}, hashtext($1)) AS TEXT)")).bind(name)
    };
    match of {
        LockedName::Domain(domain) => vec![lock("pg_try_advisory_lock", DOMAINS, domain.as_str())],
        LockedName::Address(address) => vec![
            lock("pg_try_advisory_lock_shared", DOMAINS, address.domain_str()),
            lock("pg_try_advisory_lock", ADDRESSES, address.as_str()),
        ],
    }
}

impl Drop for NamesHeld {
    fn drop(&mut self) {
        // Without a runtime, closing the connection releases the locks.
        let (Some(held), Ok(runtime)) = (self.0.take(), Handle::try_current()) else { return };
        runtime.spawn(async move {
            let Held { pooled, _permits, _counted } = *held;
            if let Some(client) = pooled.client()
                && client.batch_execute(UNLOCK).await.is_ok()
            {
                pooled.give_back();
            }
        });
    }
}
