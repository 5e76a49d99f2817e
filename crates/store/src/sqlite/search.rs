//! Users' searches: long reads on separate connections, with a time limit.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, InterruptHandle};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use super::Sqlite;
use super::readers::Pool;
use crate::StoreError;

/// Interval for interrupting a search: an interrupt between two statements has no effect, so it is repeated.
const STOP_AGAIN: Duration = Duration::from_millis(20);

impl Sqlite {
    /// Runs a user's search in a read transaction on a blocking thread.
    ///
    /// Searches have their own connections, so they delay neither [`Sqlite::read`] nor [`Sqlite::scan`]. They
    /// are stopped after [`super::SqliteSettings::search_timeout`], even if the caller no longer waits.
    ///
    /// # Errors
    /// As [`Sqlite::read`]; [`StoreError::Unavailable`] when the time limit was exceeded.
    pub async fn search<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (pool, permit) = self.0.readers.begin_search().await?;
        within_its_time(pool, permit, job).await
    }

    /// Returns the time limit of a search. A search of several steps must enforce it itself.
    #[must_use]
    pub fn search_timeout(&self) -> Duration {
        self.0.readers.search_timeout()
    }
}

/// Runs a job on a blocking thread, and stops it at the time limit of the pool's searches.
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
    // A task of its own enforces the limit even if the caller is cancelled.
    tokio::spawn(within(limit, running, stop)).await.unwrap_or_else(|_| Err(StoreError::closed().into()))
}

async fn within<T, E: From<StoreError>>(
    limit: Duration,
    mut running: JoinHandle<Result<T, E>>,
    stop: Arc<Stop>,
) -> Result<T, E> {
    if let Ok(ended) = tokio::time::timeout(limit, &mut running).await {
        // The job's own panic is caught inside, so the runtime is shutting down.
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

/// Interrupts a job while it has its connection. It is cleared afterwards, so that the next job on the
/// connection is not interrupted.
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
