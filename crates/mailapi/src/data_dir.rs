//! The data directory, which holds all durable state.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use mailapi_files::{FileError, OpenDirectory};
use mailapi_model::Entropy;

use crate::failure::{Failure, Outcome};

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
/// Only the owner may open the directory: it holds mail, password hashes and private keys.
pub(crate) const DIRECTORY_MODE: u32 = 0o700;
/// Only the owner may read a file with a secret.
const FILE_MODE: u32 = 0o600;

/// An existing data directory. Its owner can replace each name in it, so all files are used by the directory's handle.
#[derive(Debug)]
pub(crate) struct DataDir(OpenDirectory);

/// Lock of a running server on a data directory. It is released on drop, or when the process ends in any way.
#[derive(Debug)]
pub(crate) struct ServerLock(#[expect(dead_code, reason = "the open file holds the lock")] File);

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

    /// Locks the directory, so that no other server runs on it.
    pub(crate) fn lock(&self) -> Outcome<ServerLock> {
        let lock = self.lock_file()?;
        // A restore may have begun since the directory was opened, and may have been killed.
        self.refuse_restoring()?;
        Ok(lock)
    }

    fn lock_file(&self) -> Outcome<ServerLock> {
        let path = self.path().join(LOCK_FILE);
        let failed = |error| Failure::new(format!("{} cannot be locked: {error}", path.display()));
        // The file names the running process, so it must not be truncated before the lock is held.
        let mut file = self.0.change_file(LOCK_FILE, FILE_MODE)?;
        match file.try_lock() {
            Ok(()) => {
                // The process id is for people; only the lock counts.
                file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())).map_err(failed)?;
                Ok(ServerLock(file))
            }
            Err(TryLockError::WouldBlock) => Err(self.in_use(&mut file)),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    fn in_use(&self, file: &mut File) -> Failure {
        let mut owner = String::new();
        let read = file.rewind().and_then(|()| file.take(LONGEST_NODE_FILE).read_to_string(&mut owner));
        let owner = if read.is_ok() && !owner.is_empty() { format!(" (process {owner})") } else { String::new() };
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
