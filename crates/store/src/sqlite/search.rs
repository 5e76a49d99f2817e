//! Searches of users: long reads on connections of their own, and within a time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, InterruptHandle};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use super::Sqlite;
use super::readers::Pool;
use crate::StoreError;

/// Between two tries to stop a search: an interruption that comes between two statements is not felt.
const STOP_AGAIN: Duration = Duration::from_millis(20);

impl Sqlite {
    /// Runs a user's search in a read transaction on a thread that may block. Searches have connections of their own,
    /// so that neither [`Sqlite::read`] nor [`Sqlite::scan`] waits behind them, and are stopped when they take longer
    /// than [`super::SqliteSettings::search_timeout`], also when nobody waits for the answer any longer.
    ///
    /// # Errors
    /// As [`Sqlite::read`]; [`StoreError::Unavailable`] when it took too long.
    pub async fn search<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (pool, permit) = self.0.readers.begin_search().await?;
        within_its_time(pool, permit, job).await
    }

    /// How long a search may take; one in several steps must keep to it by itself.
    #[must_use]
    pub fn search_timeout(&self) -> Duration {
        self.0.readers.search_timeout()
    }
}

/// Runs a job on a thread that may block, and stops it when it takes longer than the pool's searches may.
pub(super) async fn within_its_time<T, E, F>(pool: Arc<Pool>, permit: OwnedSemaphorePermit, job: F) -> Result<T, E>
where
    F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let (stop, limit) = (Arc::new(Stop::default()), pool.search_timeout());
    let running = tokio::task::spawn_blocking({
        let stop = Arc::clone(&stop);
        move || {
            let _permit = permit;
            pool.run(|connection| {
                let _running = stop.running(connection);
                job(connection)
            })
        }
    });
    tokio::spawn(within(limit, running, stop)).await.unwrap_or_else(|_| Err(StoreError::closed().into()))
}

async fn within<T, E: From<StoreError>>(
    limit: Duration,
    mut running: JoinHandle<Result<T, E>>,
    stop: Arc<Stop>,
) -> Result<T, E> {
    if let Ok(ended) = tokio::time::timeout(limit, &mut running).await {
        // A panic was caught inside: the runtime is shutting down.
        return ended.unwrap_or_else(|_| Err(StoreError::closed().into()));
    }
    let mut again = tokio::time::interval(STOP_AGAIN);
    loop {
        tokio::select! {
            ended = &mut running => return match ended {
                Ok(Ok(answer)) => Ok(answer),
                _ => Err(StoreError::Unavailable("the search took too long".to_owned()).into()),
            },
            _ = again.tick() => stop.now(),
        }
    }
}

/// What stops a job, for as long as it has its connection: the next job on it must not feel it.
#[derive(Default)]
struct Stop(Mutex<Option<InterruptHandle>>);

struct Running<'a>(&'a Stop);

impl Stop {
    fn running(&self, connection: &Connection) -> Running<'_> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection.get_interrupt_handle());
        Running(self)
    }

    fn now(&self) {
        if let Some(handle) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            handle.interrupt();
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
