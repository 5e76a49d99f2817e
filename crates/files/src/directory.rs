//! The handle of a directory.

use std::ffi::{CString, OsStr, OsString};
use std::fs::DirBuilder;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::entry::{DirectoryEntry, EntryFacts, EntryKind, FileOwner};
use crate::error::{FileError, FileRefusal};
use crate::named::{Links, Missing, Walk};

/// Flags for every directory. Without `O_NONBLOCK` the open of a FIFO in its place would wait.
const DIRECTORY_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// An open directory. Its owner can change its entries at any moment.
#[derive(Debug)]
pub struct OpenDirectory {
    handle: OwnedFd,
    /// Where the directory was when it was opened; for messages, and for libraries that need a path.
    path: PathBuf,
    facts: EntryFacts,
}

impl OpenDirectory {
    /// Opens the directory that the operator names; links in this path are followed. Root follows only its own links.
    ///
    /// # Errors
    /// When the directory is missing or cannot be opened, or root meets a link of another user.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        if geteuid().is_root() {
            return Self::walked(path, Missing::Fail);
        }
        let failed = |error: io::Error| FileError::system(path, error);
        let absolute = path.canonicalize().map_err(failed)?;
        let handle = rustix::fs::open(&absolute, DIRECTORY_FLAGS, Mode::empty());
        Self::of(handle.map_err(|error| FileError::system(path, error))?, absolute)
    }

    /// Opens the directory that the operator names; creates it with this mode if it is missing, and its parents.
    ///
    /// # Errors
    /// When the directory cannot be created or opened.
    pub fn open_or_create(path: &Path, mode: u32) -> Result<Self, FileError> {
        if geteuid().is_root() {
            return Self::walked(path, Missing::Create(mode));
        }
        let created = DirBuilder::new().recursive(true).mode(mode).create(path);
        created.map_err(|error| FileError::system(path, error))?;
        Self::open(path)
    }

    fn walked(path: &Path, missing: Missing) -> Result<Self, FileError> {
        let walk = Walk::of(path, missing, Links::OfRoot)?.directories()?;
        // The same directory, with the right to list it.
        let handle = rustix::fs::openat(&walk.here, c".", DIRECTORY_FLAGS, Mode::empty());
        Self::of(handle.map_err(|error| FileError::system(&walk.path, error))?, walk.path)
    }

    fn of(handle: OwnedFd, path: PathBuf) -> Result<Self, FileError> {
        let stat = rustix::fs::fstat(&handle).map_err(|error| FileError::system(&path, error))?;
        Ok(Self { handle, path, facts: EntryFacts::of(&stat) })
    }

    /// Returns the absolute path at which the directory was opened. Another directory may be there now.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the owner.
    #[must_use]
    pub const fn owner(&self) -> FileOwner {
        self.facts.owner
    }

    /// Opens a directory in this one.
    ///
    /// # Errors
    /// When it is missing, or is no directory that this one's owner, root or the caller owns.
    pub fn directory(&self, name: impl AsRef<OsStr>) -> Result<Self, FileError> {
        let (name, path) = self.entry(name.as_ref())?;
        let flags = DIRECTORY_FLAGS.union(OFlags::NOFOLLOW);
        let handle = match rustix::fs::openat(&self.handle, &name, flags, Mode::empty()) {
            Ok(handle) => handle,
            // O_NOFOLLOW with O_DIRECTORY: ENOTDIR for every kind, and ELOOP on some systems.
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(self.refusal_as_directory(&name, &path)),
            Err(error) => return Err(FileError::system(&path, error)),
        };
        let directory = Self::of(handle, path)?;
        self.check_owner(&directory.facts).map_err(|refusal| FileError::refused(&directory.path, refusal))?;
        Ok(directory)
    }

    fn refusal_as_directory(&self, name: &CString, path: &Path) -> FileError {
        let kind = self.facts_of(name).ok().and_then(|facts| facts.kind.refusal_as_directory());
        FileError::refused(path, kind.unwrap_or(FileRefusal::NotDirectory))
    }

    /// Creates a directory in this one, which belongs to the caller.
    ///
    /// # Errors
    /// When the name is taken, or the directory cannot be created.
    pub fn create_directory(&self, name: impl AsRef<OsStr>, mode: u32) -> Result<Self, FileError> {
        let (checked, path) = self.entry(name.as_ref())?;
        let created = rustix::fs::mkdirat(&self.handle, &checked, Mode::from_raw_mode(mode));
        created.map_err(|error| FileError::system(&path, error))?;
        let directory = self.directory(name)?;
        // The owner of this directory can put another one in its place.
        if directory.owner().uid == geteuid().as_raw() {
            Ok(directory)
        } else {
            Err(FileError::refused(&path, FileRefusal::OtherOwner))
        }
    }

    /// Opens a directory in this one, or creates it.
    ///
    /// # Errors
    /// As [`Self::directory`] and [`Self::create_directory`].
    pub fn directory_or_create(&self, name: impl AsRef<OsStr>, mode: u32) -> Result<Self, FileError> {
        match self.directory(name.as_ref()) {
            Err(error) if error.is_missing() => match self.create_directory(name.as_ref(), mode) {
                // Another process was faster.
                Err(error) if error.is_taken() => self.directory(name),
                created => created,
            },
            opened => opened,
        }
    }

    /// Opens a directory below this one; an empty path is this one. No component may be a link.
    ///
    /// # Errors
    /// As [`Self::directory`]; also for a path that is absolute or has `..`.
    pub fn below(&self, path: &Path) -> Result<Self, FileError> {
        let mut directory = self.try_clone()?;
        for component in path.components() {
            let Component::Normal(name) = component else {
                return Err(FileError::refused(&self.path.join(path), FileRefusal::BadName));
            };
            directory = directory.directory(name)?;
        }
        Ok(directory)
    }

    /// Returns another handle of the same directory.
    ///
    /// # Errors
    /// When the process has too many open files.
    pub fn try_clone(&self) -> Result<Self, FileError> {
        let handle = self.handle.try_clone().map_err(|error| FileError::system(&self.path, error))?;
        Ok(Self { handle, path: self.path.clone(), facts: self.facts })
    }

    /// Lists all entries except `.` and `..`, without an order.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn entries(&self) -> Result<Vec<DirectoryEntry>, FileError> {
        let mut entries = Vec::new();
        self.visit_entries(|entry| {
            entries.push(entry);
            ControlFlow::Continue(())
        })?;
        Ok(entries)
    }

    /// Passes each entry except `.` and `..` to `look` until it breaks: a directory may have more entries than memory
    /// should hold.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn visit_entries(&self, mut look: impl FnMut(DirectoryEntry) -> ControlFlow<()>) -> Result<(), FileError> {
        let failed = |error: Errno| FileError::system(&self.path, error);
        for entry in Dir::read_from(&self.handle).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems list names alone.
                FileType::Unknown => match self.facts_of(name) {
                    Ok(facts) => facts.kind,
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(failed(error)),
                },
                known => EntryKind::of(known),
            };
            if look(DirectoryEntry { name: OsString::from_vec(name.to_bytes().to_vec()), kind }).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the metadata of an entry itself, not of a link's target; `None` if it is missing.
    ///
    /// # Errors
    /// When the name is no name of an entry, or the metadata cannot be read.
    pub fn facts(&self, name: impl AsRef<OsStr>) -> Result<Option<EntryFacts>, FileError> {
        let (name, path) = self.entry(name.as_ref())?;
        match self.facts_of(&name) {
            Ok(facts) => Ok(Some(facts)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(FileError::system(&path, error)),
        }
    }

    /// Gives this directory to a user, if the caller is root.
    ///
    /// # Errors
    /// When the owner cannot be changed.
    pub fn give_to(&self, owner: FileOwner) -> Result<(), FileError> {
        crate::open_file::change_owner(&self.handle, owner).map_err(|error| FileError::system(&self.path, error))
    }

    /// Makes the names in this directory durable.
    ///
    /// # Errors
    /// When the system cannot write them.
    pub fn sync(&self) -> Result<(), FileError> {
        rustix::fs::fsync(&self.handle).map_err(|error| FileError::system(&self.path, error))
    }

    /// Waits until everything that was written to the file system of this directory is durable. One call replaces one for
    /// each of thousands of files.
    ///
    /// # Errors
    /// When the system cannot write it.
    pub fn sync_file_system(&self) -> Result<(), FileError> {
        flush_file_system(&self.handle).map_err(|error| FileError::system(&self.path, error))
    }

    pub(crate) fn facts_of(&self, name: impl rustix::path::Arg) -> Result<EntryFacts, Errno> {
        rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| EntryFacts::of(&stat))
    }

    /// Returns the name for a system call, and its path for messages.
    pub(crate) fn entry(&self, name: &OsStr) -> Result<(CString, PathBuf), FileError> {
        let path = self.path.join(name);
        // Besides this component, `a/`, `a/.` and `./a` have others, which `components` hides.
        let is_name = Path::new(name).components().eq([Component::Normal(name)]) && !name.as_bytes().contains(&b'/');
        match CString::new(name.as_bytes()) {
            Ok(checked) if is_name => Ok((checked, path)),
            _ => Err(FileError::refused(&path, FileRefusal::BadName)),
        }
    }

    /// Checks that no stranger put this entry into the directory.
    pub(crate) fn check_owner(&self, entry: &EntryFacts) -> Result<(), FileRefusal> {
        const WRITABLE_BY_OTHERS: u32 = 0o022;
        let caller = geteuid().as_raw();
        let is_trusted = |uid| uid == FileOwner::ROOT || uid == caller;
        let is_closed = is_trusted(self.facts.owner.uid) && self.facts.mode & WRITABLE_BY_OTHERS == 0;
        if entry.owner.uid == self.facts.owner.uid || is_trusted(entry.owner.uid) || is_closed {
            Ok(())
        } else {
            Err(FileRefusal::OtherOwner)
        }
    }
}

impl AsFd for OpenDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

#[cfg(target_os = "linux")]
fn flush_file_system(directory: &OwnedFd) -> Result<(), Errno> {
    rustix::fs::syncfs(directory)
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps, reason = "Linux reports errors")]
fn flush_file_system(_: &OwnedFd) -> Result<(), Errno> {
    rustix::fs::sync();
    Ok(())
}
