//! Read-only connections.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{DatabaseSnapshot, SqliteSettings, open, run_guarded};
use crate::StoreError;

/// Connections for short reads, long reads and searches, opened on demand.
#[derive(Debug)]
pub(super) struct Readers {
    pool: Arc<Pool>,
    /// Searches read much of the index, and would evict other readers' pages from the cache.
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
    owner: Owner,
    idle: Mutex<Option<Vec<Opened>>>,
}

/// The owner of a database file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// This server, which never replaces the file. Open connections are not checked: they read what the writer wrote.
    Mailapi,
    /// Another program, which may replace the file. An open connection would continue to read the old one.
    Other,
}

/// A connection, and the identity of its file if that may be replaced.
#[derive(Debug)]
struct Opened {
    connection: Connection,
    file: Option<open::FileId>,
}

impl Readers {
    pub(super) fn new(path: PathBuf, settings: SqliteSettings, owner: Owner) -> Self {
        let short = Semaphore::new(settings.read_connections.max(1));
        let long = Arc::new(Semaphore::new(settings.scan_connections.max(1)));
        let searches = Arc::new(Semaphore::new(settings.search_connections.max(1)));
        let pool = |cache_kib| {
            let (path, settings) = (path.clone(), settings.clone());
            Arc::new(Pool { path, settings, cache_kib, owner, idle: Mutex::new(Some(Vec::new())) })
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

    pub(super) async fn read_one<T, E: From<StoreError>>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let _permit = self.short.acquire().await.map_err(|_| StoreError::closed())?;
        self.pool.run_one(job)
    }

    /// Waits for a permit to run one long job; returns it with the pool to use.
    pub(super) async fn begin_scan(&self) -> Result<(Arc<Pool>, OwnedSemaphorePermit), StoreError> {
        let permit = Arc::clone(&self.long).acquire_owned().await.map_err(|_| StoreError::closed())?;
        Ok((Arc::clone(&self.pool), permit))
    }

    /// Waits for a permit to run one long job, and begins a read transaction for it.
    pub(super) async fn begin_snapshot(&self) -> Result<DatabaseSnapshot, StoreError> {
        let (pool, permit) = self.begin_scan().await?;
        DatabaseSnapshot::begin(pool.take()?.connection, permit)
    }

    /// Waits for a permit to run one search; returns it with the pool to use.
    pub(super) async fn begin_search(&self) -> Result<(Arc<Pool>, OwnedSemaphorePermit), StoreError> {
        let permit = Arc::clone(&self.searches).acquire_owned().await.map_err(|_| StoreError::closed())?;
        Ok((Arc::clone(&self.search_pool), permit))
    }

    /// Returns the time limit of a search.
    pub(super) fn search_timeout(&self) -> Duration {
        self.search_pool.search_timeout()
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

    /// Runs `job` in a read transaction, so that all its queries see one snapshot.
    pub(super) fn run<T, E: From<StoreError>>(&self, job: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        let opened = self.take()?;
        execute(&opened.connection, "BEGIN")?;
        let answer = run_guarded(job, &opened.connection);
        // Nothing was written, so this only ends the snapshot. On failure the connection is dropped.
        if execute(&opened.connection, "ROLLBACK").is_ok() {
            self.put_back(opened);
        }
        answer
    }

    /// Runs a `job` of one statement, which is a transaction by itself. BEGIN and ROLLBACK would be two more
    /// statements.
    fn run_one<T, E: From<StoreError>>(&self, job: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        let opened = self.take()?;
        let answer = run_guarded(job, &opened.connection);
        // Dropping the statement resets it. A connection with an open transaction is not reused.
        if opened.connection.is_autocommit() {
            self.put_back(opened);
        }
        answer
    }

    fn take(&self) -> Result<Opened, StoreError> {
        // Read the identity before opening. If the file is replaced in between, the connection is opened once
        // more, but never reads a stale file.
        let file = match self.owner {
            Owner::Mailapi => None,
            Owner::Other => open::file_id(&self.path),
        };
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(|idle| {
            idle.retain(|opened| opened.file == file);
            idle.pop()
        });
        match idle {
            None => Err(StoreError::closed()),
            Some(Some(opened)) => Ok(opened),
            Some(None) => {
                let connection = open::reader(&self.path, &self.settings, self.cache_kib)?;
                Ok(Opened { connection, file })
            }
        }
    }

    fn put_back(&self, opened: Opened) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(idle) = idle.as_mut() {
            idle.push(opened);
        }
    }
}

fn execute(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
