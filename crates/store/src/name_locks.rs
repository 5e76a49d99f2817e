//! Serialises operations on each name.
//!
//! An operation on an address or a domain changes two stores that no transaction covers: the account database
//! and the mail server. It locks the name first, and unlocks it after both are changed. Operations on
//! addresses share the lock of their domain; an operation on a domain holds it exclusively.
//!
//! A lock is exclusive in this process, across processes on one SQLite file, and across the nodes of one
//! PostgreSQL database.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use mailapi_model::{DomainName, EmailAddress};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::time::timeout;

use crate::db::Db;
use crate::postgres::NamesHeld;
use crate::sqlite::FileHeld;
use crate::{Store, StoreError};

/// How long an operation waits for its lock. A mailbox server may take this long to remove a large mailbox,
/// and callers rarely wait longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The lock of one operation; dropping it admits the next operation.
#[derive(Debug)]
pub struct NameLock {
    // Fields drop in this order: when the next operation in this process proceeds, the other locks are
    // released or about to be.
    _engine: EngineLock,
    _here: Here,
}

#[derive(Debug)]
enum EngineLock {
    File { _held: Arc<FileHeld> },
    Names { _held: NamesHeld },
}

/// The lock within this process.
#[derive(Debug)]
enum Here {
    Address { _domain: OwnedRwLockReadGuard<()>, _address: OwnedRwLockWriteGuard<()> },
    Domain { _domain: OwnedRwLockWriteGuard<()> },
}

/// The name to lock.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LockedName<'a> {
    Address(&'a EmailAddress),
    Domain(&'a DomainName),
}

/// The locks in this process, by name.
#[derive(Debug, Default)]
pub(crate) struct NameLocks(Mutex<HashMap<String, Weak<RwLock<()>>>>);

impl NameLocks {
    fn lock_of(&self, name: &str) -> Arc<RwLock<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock_of) = locks.get(name).and_then(Weak::upgrade) {
            return lock_of;
        }
        // Removing unused locks whenever one is added bounds the map.
        locks.retain(|_, lock_of| lock_of.strong_count() > 0);
        let lock_of = Arc::default();
        locks.insert(name.to_owned(), Arc::downgrade(&lock_of));
        lock_of
    }

    /// Locks a name. The domain is locked before the address, which avoids deadlocks.
    async fn take(&self, of: LockedName<'_>) -> Here {
        match of {
            LockedName::Domain(domain) => Here::Domain { _domain: self.lock_of(domain.as_str()).write_owned().await },
            LockedName::Address(address) => {
                let domain = self.lock_of(address.domain_str()).read_owned().await;
                Here::Address { _domain: domain, _address: self.lock_of(address.as_str()).write_owned().await }
            }
        }
    }
}

impl Store {
    /// Waits for the lock of an operation on this address.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the database cannot be reached, or another operation holds the lock
    /// for too long.
    pub async fn lock_address(&self, address: &EmailAddress) -> Result<NameLock, StoreError> {
        in_time(self.lock_name(LockedName::Address(address))).await
    }

    /// Waits for the lock of an operation on this domain and all its addresses.
    ///
    /// # Errors
    /// As [`Store::lock_address`].
    pub async fn lock_domain(&self, domain: &DomainName) -> Result<NameLock, StoreError> {
        in_time(self.lock_name(LockedName::Domain(domain))).await
    }

    async fn lock_name(&self, of: LockedName<'_>) -> Result<NameLock, StoreError> {
        // Lock within this process first, so that waiting occupies no connection.
        let here = self.name_locks().take(of).await;
        let engine = match self.db() {
            Db::Sqlite(engine) => EngineLock::File { _held: engine.hold_file().await? },
            Db::Postgres(engine) => EngineLock::Names { _held: engine.hold_names(of).await? },
        };
        Ok(NameLock { _engine: engine, _here: here })
    }
}

async fn in_time<T>(lock: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let late = || StoreError::Unavailable("another operation on the same name is still running".to_owned());
    timeout(PATIENCE, lock).await.unwrap_or_else(|_| Err(late()))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn an_address_waits_for_its_domain_and_not_for_another_address() {
        let (name_locks, domain) = (NameLocks::default(), "example.org".parse().unwrap());
        let (ann, bob) = ("ann@example.org".parse().unwrap(), "bob@example.org".parse().unwrap());
        let of = |address| name_locks.take(LockedName::Address(address));
        let first = of(&ann).now_or_never();
        assert!(first.is_some() && of(&bob).now_or_never().is_some());
        assert!(of(&ann).now_or_never().is_none());
        assert!(name_locks.take(LockedName::Domain(&domain)).now_or_never().is_none());
        drop(first);
        let whole = name_locks.take(LockedName::Domain(&domain)).now_or_never();
        assert!(whole.is_some() && of(&bob).now_or_never().is_none());
        drop(whole);
        assert!(of(&bob).now_or_never().is_some());
    }

    #[tokio::test]
    async fn names_that_have_no_turn_are_forgotten() {
        let name_locks = NameLocks::default();
        for n in 0..100 {
            drop(name_locks.take(LockedName::Address(&format!("u{n}@example.org").parse().unwrap())).await);
        }
        assert!(name_locks.0.lock().unwrap().len() <= 2, "unused locks are removed");
    }
}
