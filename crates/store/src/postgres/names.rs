//! Names that one operation has to itself, on all nodes.
//!
//! The locks are advisory ones of a session (PostgreSQL manual, section 13.3.5): they last longer than a transaction,
//! since the mail server is changed between two of them, and the server lets go of them when the connection ends.

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

/// The first number of the locks, the same on all nodes of all versions. The second one is made of the name.
const DOMAINS: i32 = 0x6d61_0001;
const ADDRESSES: i32 = 0x6d61_0002;

const UNLOCK: &str = "SELECT pg_advisory_unlock_all()";

/// The pauses before a name that another node holds is tried again: the first one, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// How long to wait for the connection to work on, before the one that holds the name is given back.
const PROOF: Duration = Duration::from_millis(250);

/// Names that are held by one connection.
#[derive(Debug)]
pub(crate) struct NamesHeld(Option<Box<Held>>);

#[derive(Debug)]
struct Held {
    pooled: PooledConnection,
    /// Its place among the connections, and among the operations that hold names.
    _permits: [OwnedSemaphorePermit; 2],
    _counted: Counted,
}

/// The operations of this process that hold names: each keeps one connection, and works on another.
pub(super) struct Holders {
    permits: Arc<Semaphore>,
    count: Arc<watch::Sender<usize>>,
    /// Whoever takes a connection to hold a name: only one at a time proves that there is another one to work on.
    taking: Mutex<()>,
}

/// One of the operations that hold names, until it is dropped.
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
    /// Waits until no other operation, on any node, holds the name, and holds it. The caller bounds the wait.
    ///
    /// Who waits for another node keeps no connection meanwhile. While names are held, one connection at least is left
    /// to work on.
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

    /// `None` when another one holds the name.
    async fn try_to_hold(&self, of: LockedName<'_>) -> Result<Option<NamesHeld>, StoreError> {
        let holders = &self.0.holders;
        let permit = holders.permits.clone().acquire_owned().await.map_err(|_| StoreError::closed())?;
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
            // Those that work need the connection that was just given back.
            sleep(LONGEST_PAUSE).await;
        }
    }

    /// Waits while those that hold names leave only one connection to work on.
    async fn connections_for_one_more(&self) {
        let mut count = self.0.holders.count.subscribe();
        // The server may allow more connections again before one of them ends.
        while timeout(LONGEST_PAUSE, count.wait_for(|held| held + 2 <= self.0.connections.count_allowed()))
            .await
            .is_err()
        {}
    }

    /// Whether all locks were got at once; otherwise some of them may be held.
    async fn try_locks(&self, pooled: &PooledConnection, of: LockedName<'_>) -> Result<bool, StoreError> {
        let Some(client) = pooled.client() else { return Err(StoreError::closed()) };
        for lock in locks(of) {
            let work = Work::Read(vec![lock]);
            // When this fails the connection is closed, and with it what it holds.
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

    /// Whether there is a connection to work on.
    async fn can_work(&self) -> bool {
        let engine = self.clone();
        // Opening one may take longer than this waits: it goes on, so that the next try finds it open.
        let another = tokio::spawn(async move {
            let another = engine.0.connections.get().await;
            another.map(|(pooled, _permit)| pooled.give_back()).is_ok()
        });
        matches!(timeout(PROOF, another).await, Ok(Ok(true)))
    }

    /// Unlocks what the connection holds, and gives it back.
    async fn let_go(&self, pooled: PooledConnection) {
        let Some(client) = pooled.client() else { return };
        if let Ok(Ok(())) = timeout(self.0.settings.statement_timeout, client.batch_execute(UNLOCK)).await {
            pooled.give_back();
        }
    }
}

/// The domain comes first on every node.
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
