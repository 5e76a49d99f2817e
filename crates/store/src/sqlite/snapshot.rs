//! Reads of one state, however long they take.

use rusqlite::Connection;
use tokio::sync::OwnedSemaphorePermit;

use super::run_guarded;
use crate::StoreError;

/// A read transaction: every job sees the database as it was at the first one.
///
/// Writers never wait for it. Meanwhile the write-ahead log keeps what is committed, and grows.
#[derive(Debug)]
pub struct DatabaseSnapshot {
    /// Dropping it ends the transaction.
    connection: Connection,
    _permit: OwnedSemaphorePermit,
}

impl DatabaseSnapshot {
    pub(super) fn begin(connection: Connection, permit: OwnedSemaphorePermit) -> Result<Self, StoreError> {
        connection.execute_batch("BEGIN")?;
        Ok(Self { connection, _permit: permit })
    }

    /// Runs `job` on the calling thread.
    ///
    /// # Errors
    /// The job's own error; [`StoreError::Panicked`].
    pub fn read<T, E: From<StoreError>>(&mut self, job: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        run_guarded(job, &self.connection)
    }
}
