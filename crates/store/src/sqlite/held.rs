//! Excludes other processes on the same file during an operation of several steps.
//!
//! The lock is on the directory of the file (flock(2)). A separate lock file would have an owner, and the
//! command line may run as another user than the server. The database file itself must not be locked: closing
//! a second descriptor of it would release SQLite's own locks (fcntl(2)).

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Mutex;

use crate::StoreError;

/// Pause between attempts: about the duration of the shortest operation.
const RETRY: Duration = Duration::from_millis(5);

/// The lock, held while any operation of this process is running. The system releases it when the process
/// dies.
#[derive(Debug)]
pub(crate) struct FileHeld(#[expect(dead_code, reason = "the open file holds the lock")] File);

/// The lock of one database file.
#[derive(Debug)]
pub(super) struct HeldFile {
    directory: PathBuf,
    held: Mutex<Weak<FileHeld>>,
}

impl HeldFile {
    pub(super) fn beside(file: &Path) -> Self {
        let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        Self { directory: directory.unwrap_or(Path::new(".")).to_owned(), held: Mutex::default() }
    }

    pub(super) async fn hold(&self) -> Result<Arc<FileHeld>, StoreError> {
        let mut held = self.held.lock().await;
        // Operations of one process share the lock; they exclude each other by other means.
        if let Some(held) = held.upgrade() {
            return Ok(held);
        }
        let failed =
            |error: io::Error| StoreError::Unavailable(format!("the database's directory cannot be locked: {error}"));
        let directory = File::open(&self.directory).map_err(failed)?;
        loop {
            match directory.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => tokio::time::sleep(RETRY).await,
                // A file system without such locks is unsuitable for a database that several processes use.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => break,
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
        let lock = Arc::new(FileHeld(directory));
        *held = Arc::downgrade(&lock);
        Ok(lock)
    }
}
