//! The read-only connections.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{SqliteSettings, open, run_guarded};
use crate::StoreError;

/// Connections for short and for long reads and for searches, opened when they are first needed.
#[derive(Debug)]
pub(super) struct Readers {
    pool: Arc<Pool>,
    /// A search reads much of the index, and would drive what others read out of their caches.
    search_pool: Arc<Pool>,
    short: Semaphore,
    long: Arc<Semaphore>,
    searches: Arc<Semaphore>,
}

/// Idle connections; `None` once the database is closed.
#[derive(Debug)]
pub(super) struct Pool {
    path: PathBuf,
    settings: SqliteSettings,
    cache_kib: u32,
    idle: Mutex<Option<Vec<Connection>>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf, settings: SqliteSettings) -> Self {
        let short = Semaphore::new(settings.read_connections.max(1));
        let long = Arc::new(Semaphore::new(settings.scan_connections.max(1)));
        let searches = Arc::new(Semaphore::new(settings.search_connections.max(1)));
        let pool = |cache_kib| {
            let (path, settings) = (path.clone(), settings.clone());
            Arc::new(Pool { path, settings, cache_kib, idle: Mutex::new(Some(Vec::new())) })
        };
        let (pool, search_pool) = (pool(settings.reader_cache_kib), pool(settings.search_cache_kib));
        Self { pool, search_pool, short, long, searches }
    }

    pub(super) async fn read<T, E: From<StoreError>>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let _permit = self.short.acquire().await.map_err(|_| StoreError::closed())?;
        self.pool.run(job)
    }

    /// The right to run one long job, and what to run it on.
    pub(super) async fn begin_scan(&self) -> Result<(Arc<Pool>, OwnedSemaphorePermit), StoreError> {
        let permit = Arc::clone(&self.long).acquire_owned().await.map_err(|_| StoreError::closed())?;
        Ok((Arc::clone(&self.pool), permit))
    }

    /// The right to run one search, and what to run it on.
    pub(super) async fn begin_search(&self) -> Result<(Arc<Pool>, OwnedSemaphorePermit), StoreError> {
        let permit = Arc::clone(&self.searches).acquire_owned().await.map_err(|_| StoreError::closed())?;
        Ok((Arc::clone(&self.search_pool), permit))
    }

    pub(super) fn close(&self) {
        self.short.close();
        self.long.close();
        self.searches.close();
        for pool in [&self.pool, &self.search_pool] {
            pool.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
}

impl Pool {
    pub(super) const fn search_timeout(&self) -> Duration {
        self.settings.search_timeout
    }

    /// Runs `job` in a read transaction, so that all its queries see one state of the database.
    pub(super) fn run<T, E: From<StoreError>>(&self, job: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        let connection = self.take()?;
        execute(&connection, "BEGIN")?;
        let answer = run_guarded(job, &connection);
        // Nothing was written: this only ends the snapshot. A connection that cannot is not used again.
        if execute(&connection, "ROLLBACK").is_ok() {
            self.put_back(connection);
        }
        answer
    }

    fn take(&self) -> Result<Connection, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(Vec::pop);
        match idle {
            None => Err(StoreError::closed()),
            Some(Some(connection)) => Ok(connection),
            Some(None) => open::reader(&self.path, &self.settings, self.cache_kib),
        }
    }

    fn put_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connections) = idle.as_mut() {
            connections.push(connection);
        }
    }
}

fn execute(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
