//! The data directory, which holds all durable state.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use mailapi_files::{FileError, OpenDirectory};
use mailapi_model::Entropy;
use mailapi_store::sqlite::HomeRecord;

use crate::failure::{Failure, Outcome};
use crate::served_database::ServedDatabase;

/// Locked while a server runs.
pub(crate) const LOCK_FILE: &str = "mailapi.lock";
/// Receives the admin token of the first start.
const ADMIN_TOKEN_FILE: &str = "admin-token";
/// Holds the identifier of the directory, which distinguishes it from those of other nodes.
const NODE_FILE: &str = "node";
/// Holds the files of a restore until all of them are complete.
pub(crate) const RESTORING: &str = "restoring";
/// Bytes of the identifier, written in hexadecimal digits; long enough to be unique.
const NODE_BYTES: usize = 16;
/// Longer files with an identifier are refused.
const LONGEST_NODE_FILE: u64 = 4096;
/// More than a number of a process and three identities of files.
const LONGEST_LOCK_FILE: usize = 512;
/// How long a server waits for commands that look at the lock; each needs some microseconds.
const LOCK_PATIENCE: Duration = Duration::from_millis(250);
/// Pause between two attempts.
const LOCK_RETRY: Duration = Duration::from_millis(5);
/// Only the owner may open the directory: it holds mail, password hashes and private keys.
pub(crate) const DIRECTORY_MODE: u32 = 0o700;
/// Only the owner may read a file with a secret.
const FILE_MODE: u32 = 0o600;

/// An existing data directory. Its owner can replace each name in it, so all files are used by the directory's handle.
#[derive(Debug)]
pub(crate) struct DataDir(OpenDirectory);

/// Lock of a running server on a data directory. It is released on drop, or when the process ends in any way.
#[derive(Debug)]
pub(crate) struct ServerLock {
    file: File,
    /// What an earlier process recorded.
    left: Option<HomeRecord>,
    /// The database file, locked too: it may be used from several data directories, and the file of the lock may be moved.
    database: OnceLock<File>,
}

impl ServerLock {
    /// Returns what the last server recorded, which may have been killed.
    pub(crate) const fn left(&self) -> Option<HomeRecord> {
        self.left
    }

    /// Locks a database file, which must be that of `home`. Closing it would release locks of SQLite, so it stays open.
    pub(crate) fn hold(&self, database: File, home: HomeRecord, shown: &Path) -> Outcome {
        let facts = database.metadata()?;
        if !home.is_database(&facts) {
            return Err(Failure::new(format!(
                "the database {} was replaced at this moment; start again",
                shown.display()
            )));
        }
        let held = database.try_lock();
        // Also if it is not locked: the process ends, and SQLite closes its files first.
        let _ = self.database.set(database);
        held.map_err(|error| match error {
            TryLockError::WouldBlock => {
                Failure::new(format!("another server is running on the database {}", shown.display()))
            }
            TryLockError::Error(error) => Failure::new(format!("{} cannot be locked: {error}", shown.display())),
        })
    }

    /// Records the database that this process has open, so that no other process opens another file in its place.
    pub(crate) fn record(&self, home: HomeRecord) -> Outcome {
        write_lock(&self.file, Some(home))
            .map_err(|error| Failure::new(format!("{LOCK_FILE} cannot be written: {error}")))
    }
}

/// What the file of the lock says.
#[derive(Debug, Default)]
struct LockText {
    /// Number of the process.
    process: String,
    home: Option<HomeRecord>,
}

impl DataDir {
    /// Opens the directory; creates it with access for its owner alone if it is missing.
    pub(crate) fn open(path: &Path) -> Outcome<Self> {
        Self(OpenDirectory::open_or_create(path, DIRECTORY_MODE).map_err(unusable)?).unless_restoring()
    }

    /// Creates the directory, or opens an empty one, and locks it for a restore. Then it has the mark of an incomplete
    /// restore, so that no server starts on it.
    pub(crate) fn for_restore(path: &Path) -> Outcome<(Self, ServerLock, OpenDirectory)> {
        let directory = Self(OpenDirectory::open_or_create(path, DIRECTORY_MODE).map_err(unusable)?);
        let owner = directory.0.owner().uid;
        if rustix::process::geteuid().is_root() && owner != 0 {
            // The command would have taken the identity of this user.
            let shown = directory.path().display();
            return Err(Failure::new(format!("the data directory {shown} was replaced by one of uid {owner}")));
        }
        // A running server is the more helpful reason. Otherwise nothing is created in a directory that is refused.
        let lock = directory.0.facts(LOCK_FILE)?.map(|_| directory.lock_file()).transpose()?;
        // A new file system may have `lost+found`.
        if directory.0.entries()?.iter().any(|entry| entry.name != LOCK_FILE && entry.name != "lost+found") {
            let path = directory.path().display();
            return Err(Failure::new(format!("the data directory {path} is not empty; nothing was restored")));
        }
        // The mark comes first: a restore can be killed at any time.
        let mark = directory.0.create_directory(RESTORING, DIRECTORY_MODE)?;
        let lock = lock.map_or_else(|| directory.lock_file(), Ok);
        if lock.is_err() {
            directory.0.remove_directory(RESTORING)?;
        }
        Ok((directory, lock?, mark))
    }

    /// Refuses a directory that has a part of a backup: a server would start without the rest.
    fn unless_restoring(self) -> Outcome<Self> {
        self.refuse_restoring()?;
        Ok(self)
    }

    fn refuse_restoring(&self) -> Outcome {
        if self.0.facts(RESTORING)?.is_none() {
            return Ok(());
        }
        let path = self.path().display();
        Err(Failure::new(format!(
            "a restore into the data directory {path} runs or was interrupted; if none runs, empty the directory and \
             restore again"
        )))
    }

    /// Opens the directory if it exists.
    pub(crate) fn existing(path: &Path) -> Outcome<Self> {
        let found = OpenDirectory::open(path).map_err(|error| {
            if error.is_missing() { no_installation("data directory", path) } else { unusable(error) }
        });
        Self(found?).unless_restoring()
    }

    /// Returns the absolute path.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the handle.
    pub(crate) fn handle(&self) -> &OpenDirectory {
        &self.0
    }

    /// Path of the file for the admin token of the first start.
    pub(crate) fn admin_token_file(&self) -> PathBuf {
        self.path().join(ADMIN_TOKEN_FILE)
    }

    /// Returns the identifier of the directory, and creates it at the first call. The caller must hold the lock.
    pub(crate) fn node(&self, _: &ServerLock, entropy: &dyn Entropy) -> Outcome<String> {
        if let Some(name) = self.known_node()? {
            return Ok(name);
        }
        let mut bytes = [0; NODE_BYTES];
        entropy.fill(&mut bytes);
        let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.0.replace_file(NODE_FILE, format!("{name}\n").as_bytes(), FILE_MODE, Some(self.0.owner()))?;
        Ok(name)
    }

    /// Returns the identifier of the directory; `None` if no server has run on it.
    pub(crate) fn known_node(&self) -> Outcome<Option<String>> {
        let bytes = match self.0.read_limited(NODE_FILE, LONGEST_NODE_FILE) {
            Ok(bytes) => bytes,
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // A crash may have left an incomplete file.
        let name = str::from_utf8(&bytes).ok().map(str::trim).filter(|name| name.len() == 2 * NODE_BYTES);
        Ok(name.map(str::to_owned))
    }

    /// Returns the database that a server has open now, or has left. A process that holds the lock itself must not call it.
    pub(crate) fn served(&self) -> Outcome<Option<ServedDatabase>> {
        let file = match self.0.open_file(LOCK_FILE) {
            Ok(file) => file,
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let is_running = match file.try_lock_shared() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(error)) => return Err(self.not_locked(error)),
        };
        let text = read_lock(&file);
        Ok(text.home.map(|home| ServedDatabase { home, server: is_running.then_some(text.process) }))
    }

    /// Locks the directory, so that no other server runs on it.
    pub(crate) fn lock(&self) -> Outcome<ServerLock> {
        let lock = self.lock_file()?;
        // A restore may have begun since the directory was opened, and may have been killed.
        self.refuse_restoring()?;
        Ok(lock)
    }

    fn lock_file(&self) -> Outcome<ServerLock> {
        // The file names the running process, so it must not be truncated before the lock is held.
        let file = self.0.change_file(LOCK_FILE, FILE_MODE)?;
        let give_up = Instant::now() + LOCK_PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                // A command may look at the lock at this moment.
                Err(TryLockError::WouldBlock) if Instant::now() < give_up => thread::park_timeout(LOCK_RETRY),
                Err(TryLockError::WouldBlock) => return Err(self.in_use(&file)),
                Err(TryLockError::Error(error)) => return Err(self.not_locked(error)),
            }
        }
        let left = read_lock(&file).home;
        // The record of a server that was killed stays until another database is open.
        write_lock(&file, left).map_err(|error| self.not_locked(error))?;
        Ok(ServerLock { file, left, database: OnceLock::new() })
    }

    fn not_locked(&self, error: io::Error) -> Failure {
        Failure::new(format!("{} cannot be locked: {error}", self.path().join(LOCK_FILE).display()))
    }

    fn in_use(&self, file: &File) -> Failure {
        let process = read_lock(file).process;
        let owner = if process.is_empty() { String::new() } else { format!(" (process {process})") };
        Failure::new(format!("another server{owner} is running on the data directory {}", self.path().display()))
    }

    /// Writes the admin token to its file, readable by the owner alone. The file is then durable.
    pub(crate) fn write_admin_token(&self, value: &str) -> Outcome {
        // Replaced whole, because an existing file may have another mode.
        self.0.replace_file(ADMIN_TOKEN_FILE, format!("{value}\n").as_bytes(), FILE_MODE, Some(self.0.owner()))?;
        Ok(())
    }

    /// Removes the file of the admin token, if it exists.
    pub(crate) fn remove_admin_token(&self) -> Outcome {
        self.0.remove_file(ADMIN_TOKEN_FILE)?;
        Ok(())
    }
}

/// Reads the file of the lock. Only the lock counts: an unreadable text says nothing.
fn read_lock(file: &File) -> LockText {
    let mut bytes = vec![0; LONGEST_LOCK_FILE];
    let length = file.read_at(&mut bytes, 0).unwrap_or(0);
    let text = str::from_utf8(&bytes[..length]).unwrap_or_default();
    let (process, rest) = text.split_once('\n').unwrap_or((text, ""));
    // The end of the line proves that the record is complete.
    let home = rest.split_once('\n').and_then(|(line, _)| line.parse().ok());
    LockText { process: process.to_owned(), home }
}

/// Writes the number of this process, and the identities of the database that it has open.
fn write_lock(file: &File, home: Option<HomeRecord>) -> io::Result<()> {
    let record = home.map_or_else(String::new, |home| format!("\n{home}\n"));
    let text = format!("{}{record}", std::process::id());
    // Commands may read at any moment, so the file is never shorter than its text.
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

fn unusable(error: FileError) -> Failure {
    Failure::new(format!("the data directory cannot be used: {error}"))
}

/// Failure of a command that must not create anything: wrong directory, or no first start yet.
pub(crate) fn no_installation(what: &str, path: &Path) -> Failure {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    Failure::new(format!(
        "there is no {what} {}; run the command in the directory of the installation, or with its --config; \
         `mailapi migrate` creates a new one",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_second_server_is_refused_until_the_first_is_gone() {
        let parent = tempfile::tempdir().unwrap();
        let directory = DataDir::open(&parent.path().join("a/b")).unwrap();
        let first = directory.lock().unwrap();
        let refusal = directory.lock().unwrap_err().to_string();
        assert!(refusal.contains(&directory.path().display().to_string()), "{refusal}");
        assert!(refusal.contains(&std::process::id().to_string()), "{refusal}");
        drop(first);
        assert!(directory.lock().is_ok());
    }

    #[test]
    fn a_directory_keeps_its_name_and_no_other_has_it() {
        let parent = tempfile::tempdir().unwrap();
        let name_of = |name: &str| {
            let directory = DataDir::open(&parent.path().join(name)).unwrap();
            let lock = directory.lock().unwrap();
            directory.node(&lock, &crate::system::SystemEntropy).unwrap()
        };
        assert_eq!(name_of("one"), name_of("one"));
        assert_ne!(name_of("one"), name_of("two"));
        std::fs::write(parent.path().join("one/node"), "").unwrap();
        assert_eq!(name_of("one").len(), 2 * NODE_BYTES);
    }

    #[test]
    fn others_cannot_look_into_the_directory_or_the_token() {
        let parent = tempfile::tempdir().unwrap();
        let directory = DataDir::open(&parent.path().join("data")).unwrap();
        assert_eq!(mode(directory.path()), 0o700);
        std::fs::write(directory.admin_token_file(), "stale, and readable by all").unwrap();
        directory.write_admin_token("mapi_value").unwrap();
        assert_eq!(std::fs::read_to_string(directory.admin_token_file()).unwrap(), "mapi_value\n");
        assert_eq!(mode(&directory.admin_token_file()), 0o600);
    }
}
