//! Serialises operations on each name.

use mailapi_model::{DomainName, EmailAddress};
use mailapi_store::{NameLock, StoreError};
use tracing::Instrument;

use crate::{Service, Unavailable};

impl Service {
    /// Runs the work while the address is locked. Once started it runs to completion, even if the caller stops
    /// waiting: a half-finished operation leaves account and mailbox inconsistent.
    pub(crate) async fn with_address_lock<T, E, W>(
        &self,
        address: &EmailAddress,
        work: impl FnOnce(Self) -> W,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Unavailable> + Send + 'static,
        W: Future<Output = Result<T, E>> + Send + 'static,
    {
        let lock = self.0.store.lock_address(address).await;
        self.with_lock(lock, work).await
    }

    /// Does the same for a domain and all its addresses.
    pub(crate) async fn with_domain_lock<T, E, W>(
        &self,
        domain: &DomainName,
        work: impl FnOnce(Self) -> W,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Unavailable> + Send + 'static,
        W: Future<Output = Result<T, E>> + Send + 'static,
    {
        let lock = self.0.store.lock_domain(domain).await;
        self.with_lock(lock, work).await
    }

    async fn with_lock<T, E, W>(&self, lock: Result<NameLock, StoreError>, work: impl FnOnce(Self) -> W) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Unavailable> + Send + 'static,
        W: Future<Output = Result<T, E>> + Send + 'static,
    {
        let lock = lock.map_err(Unavailable::from)?;
        let work = work(self.clone());
        // A spawned task is not cancelled together with the caller.
        let running = tokio::spawn(
            async move {
                let outcome = work.await;
                drop(lock);
                outcome
            }
            .in_current_span(),
        );
        running.await.unwrap_or_else(|error| Err(Unavailable::Unforeseen(error.to_string()).into()))
    }
}
