//! Reads a directory with backups for a restore.

use std::path::Path;
use std::sync::Arc;

use super::chunks::Sha;
use super::directory::BackupDir;
use super::manifest::Manifest;
use super::verify::verify;
use crate::failure::Outcome;
use crate::rights_thread::RightsThread;

/// A directory with backups, which only the caller of the command may be able to read. The restored files are written with
/// the rights of another user.
#[derive(Debug)]
pub(crate) struct BackupReader {
    backups: Arc<BackupDir>,
    thread: RightsThread,
}

impl BackupReader {
    /// Opens the directory with the rights of this thread.
    pub(crate) fn open(thread: RightsThread, path: &Path) -> Outcome<Self> {
        let path = path.to_owned();
        let backups = Arc::new(thread.run(move || BackupDir::to_read(&path))??);
        Ok(Self { backups, thread })
    }

    fn with<T: Send + 'static>(&self, work: impl FnOnce(&BackupDir) -> Outcome<T> + Send + 'static) -> Outcome<T> {
        let backups = Arc::clone(&self.backups);
        self.thread.run(move || work(&backups))?
    }

    /// Returns the number of the newest backup.
    pub(crate) fn newest(&self) -> Outcome<u32> {
        self.with(BackupDir::newest)
    }

    /// Reads the manifest of a backup.
    pub(super) fn manifest(&self, number: u32) -> Outcome<Manifest> {
        self.with(move |backups| backups.manifest(number))
    }

    /// Checks every byte of a backup.
    pub(super) fn verify(&self, number: u32) -> Outcome {
        self.with(move |backups| verify(backups, number).map(drop))
    }

    /// Returns the content of a chunk after a check.
    pub(super) fn chunk(&self, id: Sha) -> Outcome<Vec<u8>> {
        self.with(move |backups| backups.chunks().read(id))
    }
}
