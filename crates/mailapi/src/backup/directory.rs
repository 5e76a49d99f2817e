//! A directory with backups.

use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use mailapi_files::{DirectoryEntry, FileError, FileRefusal, OpenDirectory};
use rustix::process::geteuid;

use super::chunks::{self, Chunks};
use super::contents::DATABASE_COPY;
use super::manifest::Manifest;
use super::{DIRECTORY_MODE, FILE_MODE, about};
use crate::failure::{Failure, Outcome};

/// Marks the directory, and is locked while it is in use.
const MARKER: &str = "mailapi-backups";
/// Holds a manifest for each backup, named by its number.
const MANIFESTS: &str = "backups";
/// Holds unfinished files of a running backup.
const WORK: &str = "work";
/// Name of an unfinished manifest.
const MANIFEST_PART: &str = "manifest";
/// Maximum length of a manifest: it is in memory while it is read. Enough for 900 GiB of mail.
const LONGEST_MANIFEST: u64 = 512 * 1024 * 1024;

/// A locked directory with backups. Another user may be able to change its entries.
#[derive(Debug)]
pub(crate) struct BackupDir {
    directory: OpenDirectory,
    /// Whether only entries of the user of this process count: those of others must not be removed.
    is_own: bool,
    /// Whether the entries that do not count have been named.
    has_warned: AtomicBool,
    _lock: File,
}

impl BackupDir {
    /// Opens the directory for a backup; creates a missing one, and accepts an empty one.
    pub(crate) fn for_backup(path: &Path) -> Outcome<Self> {
        let directory = OpenDirectory::open_or_create(path, DIRECTORY_MODE)?;
        let path = directory.path();
        // A new file system may have `lost+found`.
        let is_empty = || Ok::<_, FileError>(directory.entries()?.iter().all(|entry| entry.name == "lost+found"));
        if directory.facts(MARKER)?.is_none() && !is_empty()? {
            return Err(about(path, "the directory is not empty, and has no backups of mailapi"));
        }
        let lock = directory.append_file(MARKER, FILE_MODE)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(about(path, "another backup or restore is using the directory"));
            }
            Err(TryLockError::Error(error)) => return Err(about(&path.join(MARKER), error)),
        }
        Ok(Self { directory, is_own: true, has_warned: AtomicBool::new(false), _lock: lock })
    }

    /// Opens the directory to read its backups. It may be on a medium that cannot be written.
    pub(crate) fn to_read(path: &Path) -> Outcome<Self> {
        let directory = OpenDirectory::open(path)?;
        let path = directory.path();
        let lock = directory.open_file(MARKER).map_err(|error| {
            if error.is_missing() { about(path, "the directory has no backups of mailapi") } else { error.into() }
        })?;
        match lock.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Err(about(path, "a backup is using the directory; try again later")),
            // Some file systems have no locks.
            Ok(()) | Err(TryLockError::Error(_)) => {
                Ok(Self { directory, is_own: false, has_warned: AtomicBool::new(false), _lock: lock })
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn chunks(&self) -> Chunks<'_> {
        Chunks::in_directory(&self.directory)
    }

    /// Returns the numbers of all backups, oldest first. The first call names all other entries with such names: they are
    /// left alone.
    pub(crate) fn numbers(&self) -> Outcome<Vec<u32>> {
        let manifests = match self.directory.directory(MANIFESTS) {
            Ok(manifests) => manifests,
            Err(error) if error.is_missing() => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut numbers = Vec::new();
        let has_warned = self.has_warned.swap(true, Ordering::Relaxed);
        for entry in manifests.entries()? {
            let number = entry.name.to_str().and_then(|name| name.parse::<u32>().ok());
            // `+1` and `01` are numbers, and no names of manifests.
            let Some(number) = number.filter(|number| entry.name == *number.to_string()) else { continue };
            match self.why_not_counted(&manifests, &entry)? {
                None => numbers.push(number),
                Some(why) if !has_warned => {
                    let path = manifests.path().join(&entry.name);
                    tracing::warn!(path = %path.display(), why, "left alone: the entry is not counted as a backup");
                }
                Some(_) => {}
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Returns why an entry with the name of a manifest is none.
    fn why_not_counted(&self, manifests: &OpenDirectory, entry: &DirectoryEntry) -> Outcome<Option<String>> {
        if let Some(refusal) = entry.kind.refusal_as_file() {
            return Ok(Some(format!("it {refusal}")));
        }
        let Some(facts) = manifests.facts(&entry.name)? else { return Ok(Some("it is gone".to_owned())) };
        if self.is_own && facts.owner.uid != geteuid().as_raw() {
            return Ok(Some(format!("it {}", FileRefusal::OtherOwner)));
        }
        let file = match manifests.open_file(&entry.name) {
            Ok(file) => file,
            // An operator sees a damaged disk at the manifest itself.
            Err(error) => {
                return Ok(Some(error.refusal().map_or_else(|| error.to_string(), |why| format!("it {why}"))));
            }
        };
        let mut head = Vec::new();
        let read = file.take(Manifest::HEAD as u64).read_to_end(&mut head);
        read.map_err(|error| about(&manifests.path().join(&entry.name), error))?;
        Ok((!Manifest::may_begin(&head)).then(|| "it does not begin as a manifest".to_owned()))
    }

    /// Returns the number of the newest backup.
    pub(crate) fn newest(&self) -> Outcome<u32> {
        self.numbers()?.pop().ok_or_else(|| about(self.path(), "the directory has no complete backup"))
    }

    /// Reads the manifest of a backup.
    pub(crate) fn manifest(&self, number: u32) -> Outcome<Manifest> {
        let name = number.to_string();
        let manifests = self.directory.directory(MANIFESTS);
        let read = manifests.and_then(|manifests| manifests.read_limited(&name, LONGEST_MANIFEST));
        let bytes = read.map_err(|error| {
            if error.is_missing() {
                Failure::new(format!("there is no backup {number}; see --list"))
            } else {
                error.into()
            }
        })?;
        Manifest::decode(&bytes).map_err(|why| about(&self.path().join(MANIFESTS).join(name), why))
    }

    /// Creates an empty directory for unfinished files, and removes that of an interrupted backup.
    pub(super) fn begin_work(&self) -> Outcome<OpenDirectory> {
        self.end_work()?;
        self.directory.create_directory(WORK, DIRECTORY_MODE).map_err(|error| {
            let why = "the directory has files that no backup made; move them away";
            if error.is_taken() { about(&self.path().join(WORK), why) } else { error.into() }
        })
    }

    /// Removes unfinished files. Others stay, and their directory.
    pub(super) fn end_work(&self) -> Outcome {
        let work = match self.directory.directory(WORK) {
            Ok(work) => work,
            Err(error) if error.is_missing() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for name in [chunks::PART, MANIFEST_PART].iter().copied().chain(DATABASE_COPY) {
            work.remove_file(name)?;
        }
        if work.entries()?.is_empty() {
            self.directory.remove_directory(WORK)?;
        }
        Ok(())
    }

    /// Completes a backup; returns its number. All its chunks are durable before.
    pub(super) fn publish(&self, manifest: &Manifest, work: &OpenDirectory) -> Outcome<u32> {
        let mut number = self.numbers()?.pop().unwrap_or(0);
        let text = manifest.encode()?;
        self.directory.sync_file_system()?;
        let manifests = self.directory.directory_or_create(MANIFESTS, DIRECTORY_MODE)?;
        let mut file = work.create_file(MANIFEST_PART, FILE_MODE)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|error| about(&work.path().join(MANIFEST_PART), error))?;
        loop {
            // Something else may have the name.
            number = number.checked_add(1).ok_or_else(|| about(manifests.path(), "no number is left"))?;
            match work.rename_new(MANIFEST_PART, &manifests, number.to_string()) {
                Err(error) if error.is_taken() => {}
                renamed => break renamed?,
            }
        }
        self.directory.sync_file_system()?;
        Ok(number)
    }

    pub(super) fn remove_manifest(&self, number: u32) -> Outcome {
        self.directory.directory(MANIFESTS)?.remove_file(number.to_string())?;
        Ok(())
    }
}
