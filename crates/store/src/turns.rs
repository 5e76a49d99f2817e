//! Serialises operations on each name.
//!
//! An operation on an address or a domain changes two stores that no transaction covers together: the account database
//! and the mail server. It takes its turn first, and returns it when both are changed. Operations on addresses share
//! the turn of their domain; an operation on the domain has it exclusively.
//!
//! A turn is exclusive in this process, across processes on one SQLite file, and across the nodes of one PostgreSQL
//! database.

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

/// How long an operation waits for its turn. A mailbox server may take this long to remove a large mailbox, and callers
/// rarely wait longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The turn of one operation; dropping it passes the turn to the next one.
#[derive(Debug)]
pub struct Turn {
    // Fields drop in this order: when the next one in this process proceeds, the other locks are released or about to
    // be.
    _engine: EngineTurn,
    _here: Here,
}

#[derive(Debug)]
enum EngineTurn {
    File { _held: Arc<FileHeld> },
    Names { _held: NamesHeld },
}

/// The turn within this process.
#[derive(Debug)]
enum Here {
    Address { _domain: OwnedRwLockReadGuard<()>, _address: OwnedRwLockWriteGuard<()> },
    Domain { _domain: OwnedRwLockWriteGuard<()> },
}

/// The name that a turn is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TurnOf<'a> {
    Address(&'a EmailAddress),
    Domain(&'a DomainName),
}

/// The locks in this process, by name.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Weak<RwLock<()>>>>);

impl Turns {
    fn line(&self, name: &str) -> Arc<RwLock<()>> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = lines.get(name).and_then(Weak::upgrade) {
            return line;
        }
        lines.retain(|_, line| line.strong_count() > 0);
        let line = Arc::default();
        lines.insert(name.to_owned(), Arc::downgrade(&line));
        line
    }

    /// The domain is locked before the address, which avoids deadlocks.
    async fn take(&self, of: TurnOf<'_>) -> Here {
        match of {
            TurnOf::Domain(domain) => Here::Domain { _domain: self.line(domain.as_str()).write_owned().await },
            TurnOf::Address(address) => {
                let domain = self.line(address.domain_str()).read_owned().await;
                Here::Address { _domain: domain, _address: self.line(address.as_str()).write_owned().await }
            }
        }
    }
}

impl Store {
    /// Waits for the turn of an operation on this address.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the database cannot be reached, or another operation takes very long.
    pub async fn turn_of_address(&self, address: &EmailAddress) -> Result<Turn, StoreError> {
        in_time(self.take_turn(TurnOf::Address(address))).await
    }

    /// Waits for the turn of an operation on this domain and all its addresses.
    ///
    /// # Errors
    /// As [`Store::turn_of_address`].
    pub async fn turn_of_domain(&self, domain: &DomainName) -> Result<Turn, StoreError> {
        in_time(self.take_turn(TurnOf::Domain(domain))).await
    }

    async fn take_turn(&self, of: TurnOf<'_>) -> Result<Turn, StoreError> {
        // The turn in this process comes first, so that waiting for it needs no connection.
        let here = self.turns().take(of).await;
        let engine = match self.db() {
            Db::Sqlite(engine) => EngineTurn::File { _held: engine.hold_file().await? },
            Db::Postgres(engine) => EngineTurn::Names { _held: engine.hold_names(of).await? },
        };
        Ok(Turn { _engine: engine, _here: here })
    }
}

async fn in_time<T>(turn: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let late = || StoreError::Unavailable("another operation on the same name is still running".to_owned());
    timeout(PATIENCE, turn).await.unwrap_or_else(|_| Err(late()))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn an_address_waits_for_its_domain_and_not_for_another_address() {
        let (turns, domain) = (Turns::default(), "example.org".parse().unwrap());
        let (ann, bob) = ("ann@example.org".parse().unwrap(), "bob@example.org".parse().unwrap());
        let of = |address| turns.take(TurnOf::Address(address));
        let first = of(&ann).now_or_never();
        assert!(first.is_some() && of(&bob).now_or_never().is_some());
        assert!(of(&ann).now_or_never().is_none());
        assert!(turns.take(TurnOf::Domain(&domain)).now_or_never().is_none());
        drop(first);
        let whole = turns.take(TurnOf::Domain(&domain)).now_or_never();
        assert!(whole.is_some() && of(&bob).now_or_never().is_none());
        drop(whole);
        assert!(of(&bob).now_or_never().is_some());
    }

    #[tokio::test]
    async fn names_that_have_no_turn_are_forgotten() {
        let turns = Turns::default();
        for n in 0..100 {
            drop(turns.take(TurnOf::Address(&format!("u{n}@example.org").parse().unwrap())).await);
        }
        assert!(turns.0.lock().unwrap().len() <= 2, "the newest ones at most");
    }
}
