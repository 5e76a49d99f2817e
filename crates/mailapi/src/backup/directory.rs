//! A directory with backups.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::chunks::Chunks;
use super::manifest::Manifest;
use super::{DIRECTORY_MODE, FILE_MODE, about};
use crate::failure::{Failure, Outcome};

/// Marks the directory, and is locked while it is in use.
const MARKER: &str = "mailapi-backups";
/// Holds a manifest for each backup, named by its number.
const MANIFESTS: &str = "backups";
/// Holds unfinished files of a running backup.
const WORK: &str = "work";
/// Maximum length of a manifest: it is in memory while it is read. Enough for 900 GiB of mail.
const LONGEST_MANIFEST: u64 = 512 * 1024 * 1024;

/// A locked directory with backups.
#[derive(Debug)]
pub(crate) struct BackupDir {
    path: PathBuf,
    _lock: File,
}

impl BackupDir {
    /// Opens the directory for a backup; creates a missing one, and accepts an empty one.
    pub(crate) fn for_backup(path: &Path) -> Outcome<Self> {
        let failed = |error: io::Error| about(path, error);
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let marker = path.join(MARKER);
        if !marker.exists() && !is_empty(&path)? {
            return Err(about(&path, "the directory is not empty, and has no backups of mailapi"));
        }
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(FILE_MODE);
        let lock = options.open(&marker).map_err(|error| about(&marker, error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(about(&path, "another backup or restore is using the directory")),
            Err(TryLockError::Error(error)) => Err(about(&marker, error)),
        }
    }

    /// Opens the directory to read its backups. It may be on a medium that cannot be written.
    pub(crate) fn to_read(path: &Path) -> Outcome<Self> {
        let path = path.canonicalize().map_err(|error| about(path, error))?;
        let lock = File::open(path.join(MARKER)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => about(&path, "the directory has no backups of mailapi"),
            _ => about(&path, error),
        })?;
        match lock.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Err(about(&path, "a backup is using the directory; try again later")),
            // Some file systems have no locks.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Self { path, _lock: lock }),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn chunks(&self) -> Chunks {
        Chunks::in_directory(&self.path)
    }

    /// Returns the numbers of all backups, oldest first.
    pub(crate) fn numbers(&self) -> Outcome<Vec<u32>> {
        let directory = self.path.join(MANIFESTS);
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(about(&directory, error)),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| about(&directory, error))?.file_name();
            numbers.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Returns the number of the newest backup.
    pub(crate) fn newest(&self) -> Outcome<u32> {
        self.numbers()?.pop().ok_or_else(|| about(&self.path, "the directory has no complete backup"))
    }

    fn manifest_file(&self, number: u32) -> PathBuf {
        self.path.join(MANIFESTS).join(number.to_string())
    }

    /// Reads the manifest of a backup.
    pub(crate) fn manifest(&self, number: u32) -> Outcome<Manifest> {
        let path = self.manifest_file(number);
        let read = File::open(&path).and_then(|file| {
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut io::Read::take(file, LONGEST_MANIFEST), &mut bytes)?;
            Ok(bytes)
        });
        let bytes = read.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::new(format!("there is no backup {number}; see --list")),
            _ => about(&path, error),
        })?;
        Manifest::decode(&bytes).map_err(|why| about(&path, why))
    }

    /// Creates an empty directory for unfinished files, and removes that of an interrupted backup.
    pub(super) fn begin_work(&self) -> Outcome<PathBuf> {
        self.end_work()?;
        let work = self.path.join(WORK);
        DirBuilder::new().mode(DIRECTORY_MODE).create(&work).map_err(|error| about(&work, error))?;
        Ok(work)
    }

    pub(super) fn end_work(&self) -> Outcome {
        let work = self.path.join(WORK);
        match std::fs::remove_dir_all(&work) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(about(&work, error)),
            _ => Ok(()),
        }
    }

    /// Completes a backup; returns its number. All its chunks are durable before.
    pub(super) fn publish(&self, manifest: &Manifest, work: &Path) -> Outcome<u32> {
        let number = self.numbers()?.pop().unwrap_or(0).saturating_add(1);
        let (part, path) = (work.join("manifest"), self.manifest_file(number));
        let text = manifest.encode()?;
        let written = || {
            flush_file_system(&self.path)?;
            DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(self.path.join(MANIFESTS))?;
            let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&part)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&part, &path)?;
            flush_file_system(&self.path)
        };
        written().map_err(|error| about(&path, error))?;
        Ok(number)
    }

    pub(super) fn remove_manifest(&self, number: u32) -> Outcome {
        let path = self.manifest_file(number);
        std::fs::remove_file(&path).map_err(|error| about(&path, error))
    }
}

/// Waits until everything that was written to the file system of a directory is durable. One flush replaces thousands,
/// one for each chunk.
#[cfg(target_os = "linux")]
pub(super) fn flush_file_system(directory: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(directory)?)?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn flush_file_system(_: &Path) -> io::Result<()> {
    rustix::fs::sync();
    Ok(())
}

/// Returns whether a directory is empty. A new file system may have `lost+found`.
fn is_empty(directory: &Path) -> Outcome<bool> {
    let entries = std::fs::read_dir(directory).map_err(|error| about(directory, error))?;
    Ok(entries.flatten().all(|entry| entry.file_name() == "lost+found"))
}
