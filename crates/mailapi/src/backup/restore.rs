//! Restores a backup into an empty data directory, whole or not at all.
//!
//! All files are written under `restoring` first, and then renamed to their places. No server starts on a directory
//! that has `restoring`, so a restore that was killed is never taken for a whole one.

use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};

use mailapi_backend_embedded::message_store::{MAIL_SCHEMA, pass_over_used_numbers};
use mailapi_files::{FileError, FileOwner, OpenDirectory};
use mailapi_model::Timestamp;
use mailapi_store::SQLITE_SCHEMA;
use mailapi_store::sqlite::{Sqlite, SqliteSettings, check_database, remove_foreign_code};
use rustix::fs::Mode;
use sha2::{Digest, Sha256};

use super::chunks::Sha;
use super::contents::{DATABASE_COPY, is_left_out};
use super::manifest::{FileEntry, Manifest};
use super::reader::BackupReader;
use super::{DIRECTORY_MODE, FILE_MODE, about, require_space};
use crate::data_dir::{DataDir, LOCK_FILE, RESTORING};
use crate::database_file::with_suffix;
use crate::failure::{Failure, Outcome};

/// What a group of users may have of the database besides its owner. A manifest can name any mode.
const DATABASE_GROUP_MODE: u32 = 0o060;

/// Where a backup is restored.
#[derive(Debug)]
pub(crate) struct Destination {
    pub(crate) data_dir: PathBuf,
    pub(crate) database: PathBuf,
}

/// Restores a backup; returns its manifest. Checks every byte before the first is written, and that `is_suitable`.
pub(crate) async fn restore(
    from: &BackupReader,
    number: u32,
    to: &Destination,
    now: Timestamp,
    is_suitable: impl FnOnce(&Manifest) -> Outcome,
) -> Outcome<Manifest> {
    for suffix in ["", "-wal", "-journal"] {
        let path = with_suffix(&to.database, suffix);
        // A link that leads to nothing is in the way, too.
        if path.symlink_metadata().is_ok() && !path.starts_with(&to.data_dir) {
            return Err(about(&path, "the file exists; nothing was restored"));
        }
    }
    let (directory, lock, part) = DataDir::for_restore(&to.data_dir)?;
    let restored: Outcome<Manifest> = async {
        let manifest = from.manifest(number)?;
        is_suitable(&manifest)?;
        check_names(&manifest, to)?;
        let restoring = Restoring::begin(&directory, part, to, from)?;
        let written = restoring.restore(number, &manifest, now).await;
        written.inspect_err(|_| restoring.discard(&manifest))?;
        Ok(manifest)
    }
    .await;
    // The mark goes last. After a success it is gone already.
    let unmarked = directory.handle().remove_tree(RESTORING);
    // The server may run as another user, who could not open the file.
    let _ = directory.handle().remove_file(LOCK_FILE);
    drop(lock);
    let manifest = restored?;
    unmarked?;
    Ok(manifest)
}

/// Fails if a manifest names a file that no backup has, such as a log that SQLite would write into the database.
fn check_names(manifest: &Manifest, to: &Destination) -> Outcome {
    let strange = manifest.files.iter().find(|file| is_left_out(&to.data_dir, &to.database, Path::new(&file.path)));
    strange.map_or(Ok(()), |file| Err(Failure::new(format!("{}: no backup has this file", file.path))))
}

/// A restore that is not complete. Its files are in directories that only the user of this process can open: no other
/// user can replace them until they are complete.
struct Restoring<'a> {
    data_dir: &'a OpenDirectory,
    /// Directory of all files but the database. It is the mark of an incomplete restore.
    part: OpenDirectory,
    /// The directory of the database, which may be on another file system.
    database_dir: OpenDirectory,
    database_name: PathBuf,
    /// The directory in it that has the database until it is complete.
    database_part: OpenDirectory,
    database_part_name: PathBuf,
    /// Whether the database is in its place.
    is_placed: Cell<bool>,
    from: &'a BackupReader,
    owner: FileOwner,
}

impl<'a> Restoring<'a> {
    fn begin(directory: &'a DataDir, part: OpenDirectory, to: &Destination, from: &'a BackupReader) -> Outcome<Self> {
        let data_dir = directory.handle();
        let name = |path: &Path| path.file_name().map(PathBuf::from).ok_or_else(|| about(path, "is no name of a file"));
        let (database_name, owner) = (name(&to.database)?, data_dir.owner());
        let database_dir = match parent(&to.database).strip_prefix(&to.data_dir) {
            Ok(below) => create_directories(data_dir, below, owner)?,
            Err(_) => OpenDirectory::open_or_create(parent(&to.database), DIRECTORY_MODE)?,
        };
        let database_part_name = with_suffix(&database_name, ".restoring");
        // An interrupted restore left one, if the database is outside the data directory.
        remove_part(&database_dir, &database_part_name)?;
        let database_part = database_dir.create_directory(&database_part_name, DIRECTORY_MODE)?;
        Ok(Self {
            data_dir,
            part,
            database_dir,
            database_name,
            database_part,
            database_part_name,
            is_placed: Cell::new(false),
            from,
            owner,
        })
    }

    async fn restore(&self, number: u32, manifest: &Manifest, now: Timestamp) -> Outcome {
        require_space(&self.database_part, "the database", manifest.database.size)?;
        require_space(&self.part, "the backup", manifest.size_of_others())?;
        self.from.verify(number)?;
        self.write_all(manifest, now).await?;
        self.put_in_place(manifest)
    }

    /// Writes all files, and checks the database. Then everything is durable.
    async fn write_all(&self, manifest: &Manifest, now: Timestamp) -> Outcome {
        let database = self.database_part.path().join(DATABASE_COPY[0]);
        self.write(&manifest.database, &self.database_part, DATABASE_COPY[0].as_ref())?;
        for file in &manifest.files {
            let path = Path::new(&file.path);
            let directory = create_directories(&self.part, parent_in(path), self.owner)?;
            let name = Path::new(path.file_name().unwrap_or_default());
            self.write(file, &directory, name)?;
            self.give(&directory, name, FILE_MODE)?;
        }
        prepare_database(&database, now).await?;
        let mode = FILE_MODE | manifest.database.mode & DATABASE_GROUP_MODE;
        self.give(&self.database_part, DATABASE_COPY[0].as_ref(), mode)?;
        self.part.sync_file_system()?;
        Ok(self.database_part.sync_file_system()?)
    }

    fn write(&self, entry: &FileEntry, directory: &OpenDirectory, name: &Path) -> Outcome {
        let path = directory.path().join(name);
        let mut file = directory.create_file(name, FILE_MODE)?;
        let mut sha = Sha256::new();
        for id in &entry.chunks {
            let bytes = self.from.chunk(*id)?;
            sha.update(&bytes);
            file.write_all(&bytes).map_err(|error| about(&path, error))?;
        }
        if Sha(sha.finalize().into()) == entry.sha256 {
            Ok(())
        } else {
            Err(about(&path, "the checksum of the file is wrong"))
        }
    }

    /// Gives a file to the owner of the data directory, if the caller is root.
    fn give(&self, directory: &OpenDirectory, name: &Path, mode: u32) -> Outcome {
        let file = directory.change_file(name, FILE_MODE)?;
        let set = rustix::fs::fchmod(&file, Mode::from_raw_mode(mode));
        set.map_err(|error| about(&directory.path().join(name), error))?;
        Ok(directory.give(&file, name, self.owner)?)
    }

    /// Renames all files to their places. The mark of the incomplete restore goes last.
    fn put_in_place(&self, manifest: &Manifest) -> Outcome {
        for name in top_names(manifest) {
            self.part.rename(&name, self.data_dir, &name)?;
        }
        if self.database_dir.facts(&self.database_name)?.is_some() {
            return Err(about(&self.database_dir.path().join(&self.database_name), "the file exists"));
        }
        self.database_part.rename(DATABASE_COPY[0], &self.database_dir, &self.database_name)?;
        self.is_placed.set(true);
        self.database_dir.remove_directory(&self.database_part_name)?;
        self.database_dir.sync_file_system()?;
        self.data_dir.sync_file_system()?;
        self.data_dir.remove_directory(RESTORING)?;
        Ok(self.data_dir.sync_file_system()?)
    }

    /// Removes everything that was written but the mark of the incomplete restore.
    fn discard(&self, manifest: &Manifest) {
        let _ = remove_part(&self.database_dir, &self.database_part_name);
        if self.is_placed.get() {
            let _ = self.database_dir.remove_file(&self.database_name);
        }
        for name in top_names(manifest) {
            let _ = match self.data_dir.remove_file(&name) {
                Ok(_) => Ok(true),
                Err(_) => self.data_dir.remove_tree(&name),
            };
        }
    }
}

/// Removes the directory of an incomplete database; one with files of others stays, and is an error.
fn remove_part(directory: &OpenDirectory, name: &Path) -> Result<(), FileError> {
    let part = match directory.directory(name) {
        Ok(part) => part,
        Err(error) if error.is_missing() => return Ok(()),
        Err(error) => return Err(error),
    };
    for file in DATABASE_COPY {
        part.remove_file(file)?;
    }
    directory.remove_directory(name).map(drop)
}

/// Creates the directories of a path, which belong to `owner` if the caller is root; returns the last one.
fn create_directories(above: &OpenDirectory, path: &Path, owner: FileOwner) -> Outcome<OpenDirectory> {
    let mut directory = above.try_clone()?;
    for name in path.components() {
        let is_new = directory.facts(name)?.is_none();
        directory = directory.directory_or_create(name, DIRECTORY_MODE)?;
        if is_new {
            directory.give_to(owner)?;
        }
    }
    Ok(directory)
}

/// Returns the directories of a relative path; none for a name.
fn parent_in(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Checks the database, and passes over the numbers that the server used after the backup.
async fn prepare_database(path: &Path, now: Timestamp) -> Outcome {
    check_database(path).map_err(|error| about(path, error))?;
    let removed = remove_foreign_code(path, &[SQLITE_SCHEMA, MAIL_SCHEMA]).map_err(|error| about(path, error))?;
    for object in removed {
        tracing::warn!(object, "not restored: mailapi did not make it");
    }
    let settings = SqliteSettings { follows_links: false, ..SqliteSettings::default() };
    let sqlite = Sqlite::open(path, settings).map_err(|error| about(path, error))?;
    let passed = pass_over_used_numbers(&sqlite, now).await;
    sqlite.close().await;
    passed.map_err(|error| about(path, error))?;
    let log = with_suffix(path, "-wal");
    // The last connection empties the log and removes it. The file alone is renamed.
    if log.exists() { Err(about(&log, "the log was not removed")) } else { Ok(()) }
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
