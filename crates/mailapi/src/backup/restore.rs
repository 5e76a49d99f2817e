//! Restores a backup into an empty data directory, whole or not at all.
//!
//! All files are written under `restoring` first, and then renamed to their places. No server starts on a directory
//! that has `restoring`, so a restore that was killed is never taken for a whole one.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use mailapi_backend_embedded::message_store::pass_over_used_numbers;
use mailapi_model::Timestamp;
use mailapi_store::sqlite::{Sqlite, SqliteSettings, check_database};
use sha2::{Digest, Sha256};

use super::chunks::{Chunks, Sha};
use super::contents::with_suffix;
use super::directory::{BackupDir, flush_file_system};
use super::manifest::{FileEntry, Manifest};
use super::{DIRECTORY_MODE, FILE_MODE, about, verify};
use crate::data_dir::{DataDir, LOCK_FILE, RESTORING};
use crate::failure::Outcome;

/// Where a backup is restored.
#[derive(Debug)]
pub(crate) struct Destination {
    pub(crate) data_dir: PathBuf,
    pub(crate) database: PathBuf,
}

/// Restores a backup; returns its manifest. Checks every byte before the first is written.
pub(crate) async fn restore(from: &BackupDir, number: u32, to: &Destination, now: Timestamp) -> Outcome<Manifest> {
    for suffix in ["", "-wal", "-journal"] {
        let path = with_suffix(&to.database, suffix);
        if path.exists() && !path.starts_with(&to.data_dir) {
            return Err(about(&path, "the file exists; nothing was restored"));
        }
    }
    let (directory, lock) = DataDir::for_restore(&to.data_dir)?;
    let restored = restore_into(&directory, from, number, to, now).await;
    // The server may run as another user, who could not open the file.
    let _ = std::fs::remove_file(directory.path().join(LOCK_FILE));
    drop(lock);
    restored
}

async fn restore_into(
    directory: &DataDir,
    from: &BackupDir,
    number: u32,
    to: &Destination,
    now: Timestamp,
) -> Outcome<Manifest> {
    let manifest = verify(from, number)?;
    let restoring = Restoring::begin(directory, to, from.chunks())?;
    let mut written = restoring.write_all(&manifest, now).await;
    if written.is_ok() {
        written = restoring.put_in_place(&manifest);
    }
    written.inspect_err(|_| restoring.discard(&manifest))?;
    Ok(manifest)
}

struct Restoring<'a> {
    data_dir: &'a Path,
    /// Directory of all files but the database.
    part: PathBuf,
    /// The database until it is complete, on the file system of its place.
    database_part: PathBuf,
    database: PathBuf,
    chunks: Chunks,
    owner: (u32, u32),
}

impl<'a> Restoring<'a> {
    fn begin(directory: &'a DataDir, to: &Destination, chunks: Chunks) -> Outcome<Self> {
        let (data_dir, part) = (directory.path(), directory.path().join(RESTORING));
        let owner = std::fs::metadata(data_dir).map_err(|error| about(data_dir, error))?;
        let owner = (owner.uid(), owner.gid());
        DirBuilder::new().mode(DIRECTORY_MODE).create(&part).map_err(|error| about(&part, error))?;
        let database_part = with_suffix(&to.database, ".restoring");
        Ok(Self { data_dir, part, database_part, database: to.database.clone(), chunks, owner })
    }

    /// Writes all files, and checks the database. Then everything is durable.
    async fn write_all(&self, manifest: &Manifest, now: Timestamp) -> Outcome {
        let database = parent(&self.database);
        let mut options = DirBuilder::new();
        options.recursive(true).mode(DIRECTORY_MODE).create(database).map_err(|error| about(database, error))?;
        self.write(&manifest.database, &self.database_part)?;
        for file in &manifest.files {
            self.create_directories(Path::new(&file.path))?;
            self.write(file, &self.part.join(&file.path))?;
        }
        self.prepare_database(now).await?;
        let flushed = flush_file_system(&self.part).and_then(|()| flush_file_system(database));
        flushed.map_err(|error| about(&self.part, error))
    }

    /// Checks the database, and passes over the numbers that the server used after the backup.
    async fn prepare_database(&self, now: Timestamp) -> Outcome {
        let path = &self.database_part;
        check_database(path).map_err(|error| about(path, error))?;
        let sqlite = Sqlite::open(path, SqliteSettings::default()).map_err(|error| about(path, error))?;
        let passed = pass_over_used_numbers(&sqlite, now).await;
        sqlite.close().await;
        passed.map_err(|error| about(path, error))?;
        let log = with_suffix(path, "-wal");
        // The last connection empties the log and removes it. The file alone is renamed.
        if log.exists() { Err(about(&log, "the log was not removed")) } else { Ok(()) }
    }

    fn create_directories(&self, file: &Path) -> Outcome {
        let mut path = self.part.clone();
        for name in file.parent().into_iter().flat_map(Path::components) {
            path.push(name);
            if !path.is_dir() {
                DirBuilder::new().mode(DIRECTORY_MODE).create(&path).map_err(|error| about(&path, error))?;
                self.give(&path);
            }
        }
        Ok(())
    }

    fn write(&self, entry: &FileEntry, path: &Path) -> Outcome {
        let failed = |error| about(path, error);
        let mut options = OpenOptions::new();
        let mut file: File = options.write(true).create_new(true).mode(FILE_MODE).open(path).map_err(failed)?;
        let mut sha = Sha256::new();
        for id in &entry.chunks {
            let bytes = self.chunks.read(*id)?;
            sha.update(&bytes);
            file.write_all(&bytes).map_err(failed)?;
        }
        if Sha(sha.finalize().into()) != entry.sha256 {
            return Err(about(path, "the checksum of the file is wrong"));
        }
        file.set_permissions(PermissionsExt::from_mode(entry.mode & 0o777)).map_err(failed)?;
        self.give(path);
        Ok(())
    }

    /// Gives a file to the owner of the data directory, if the caller is root.
    fn give(&self, path: &Path) {
        let _ = chown(path, Some(self.owner.0), Some(self.owner.1));
    }

    /// Renames all files to their places. The directory of the incomplete restore goes last.
    fn put_in_place(&self, manifest: &Manifest) -> Outcome {
        for name in top_names(manifest) {
            let path = self.data_dir.join(&name);
            std::fs::rename(self.part.join(&name), &path).map_err(|error| about(&path, error))?;
        }
        let renamed = std::fs::rename(&self.database_part, &self.database);
        renamed.map_err(|error| about(&self.database, error))?;
        let flush = || {
            flush_file_system(parent(&self.database))?;
            flush_file_system(self.data_dir)?;
            std::fs::remove_dir(&self.part)?;
            flush_file_system(self.data_dir)
        };
        flush().map_err(|error| about(&self.part, error))
    }

    /// Removes everything that was written. The directory of the incomplete restore goes last.
    fn discard(&self, manifest: &Manifest) {
        for file in [&self.database, &self.database_part] {
            for suffix in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(with_suffix(file, suffix));
            }
        }
        for name in top_names(manifest) {
            let path = self.data_dir.join(name);
            let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        }
        let _ = std::fs::remove_dir_all(&self.part);
    }
}

/// Names of the files and directories that are directly in the data directory.
fn top_names(manifest: &Manifest) -> Vec<PathBuf> {
    let firsts = manifest.files.iter().filter_map(|file| Path::new(&file.path).components().next());
    let mut names: Vec<PathBuf> = firsts.map(|name| PathBuf::from(name.as_os_str())).collect();
    names.sort();
    names.dedup();
    names
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
