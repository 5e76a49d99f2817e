//! Locks on names, across all nodes.
//!
//! The locks are session-level advisory locks (PostgreSQL manual, section 13.3.5). They outlast a transaction, because
//! the mail server is changed between two transactions. The server releases them when the connection ends.

use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

use super::Postgres;
use super::lease::Lease;
use crate::StoreError;
use crate::db::Stmt;
use crate::db::postgres::Work;
use crate::turns::TurnOf;

/// The first key of the locks, the same on all nodes of all versions. The second key is a hash of the name.
const DOMAINS: i32 = 0x6d61_0001;
const ADDRESSES: i32 = 0x6d61_0002;

const UNLOCK: &str = "SELECT pg_advisory_unlock_all()";

/// Names that are locked by one connection.
#[derive(Debug)]
pub(crate) struct NamesHeld(Option<Box<Held>>);

#[derive(Debug)]
struct Held {
    lease: Lease,
    /// Its place in the pool, and its place among the operations that hold names.
    _places: [OwnedSemaphorePermit; 2],
}

impl Postgres {
    /// Waits until no other operation on any node holds the lock of the name, then locks it.
    pub(crate) async fn hold_names(&self, of: TurnOf<'_>) -> Result<NamesHeld, StoreError> {
        let place = self.0.holders.clone().acquire_owned().await.map_err(|_| StoreError::closed())?;
        let (lease, connection) = self.0.connections.get().await?;
        for lock in locks(of) {
            let Some(client) = lease.client() else { return Err(StoreError::closed()) };
            let work = Work::Read(vec![lock]);
            // Unless all locks are acquired, the connection is closed, which releases the acquired ones.
            let held = tokio::time::timeout(self.patience(&work), crate::db::postgres::run(client, &work)).await;
            held.unwrap_or_else(|_| Err(super::Failed::timed_out())).map_err(|failed| failed.error)?;
        }
        Ok(NamesHeld(Some(Box::new(Held { lease, _places: [connection, place] }))))
    }
}

/// The domain is locked first on every node, which avoids deadlocks.
fn locks(of: TurnOf<'_>) -> Vec<Stmt> {
    let lock = |function: &str, kind: i32, name: &str| {
        Stmt::new(format!("SELECT CAST({function}({kind}, hashtext($1)) AS TEXT)")).bind(name)
    };
    match of {
        TurnOf::Domain(domain) => vec![lock("pg_advisory_lock", DOMAINS, domain.as_str())],
        TurnOf::Address(address) => vec![
            lock("pg_advisory_lock_shared", DOMAINS, address.domain_str()),
            lock("pg_advisory_lock", ADDRESSES, address.as_str()),
        ],
    }
}

impl Drop for NamesHeld {
    fn drop(&mut self) {
        let (Some(held), Ok(runtime)) = (self.0.take(), Handle::try_current()) else { return };
        runtime.spawn(async move {
            let Held { lease, _places } = *held;
            if let Some(client) = lease.client()
                && client.batch_execute(UNLOCK).await.is_ok()
            {
                lease.give_back();
            }
        });
    }
}
