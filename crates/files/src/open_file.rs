//! Opens, creates and gives away regular files.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::OpenDirectory;
use crate::entry::{EntryFacts, FileOwner};
use crate::error::{FileError, FileRefusal};
use crate::named::{Links, Missing, Walk};

/// Flags for every file. `O_NONBLOCK` waits neither for the other end of a FIFO nor for the holder of a lease; it changes
/// nothing for a regular file. `O_NOCTTY`: no terminal becomes that of this process.
const FILE_FLAGS: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// How often a file is opened or created whose name appears and disappears meanwhile.
const MOST_ATTEMPTS: usize = 16;

/// Opens a file that the operator names, to read it. Links in this path are followed, and every owner is allowed. Root
/// follows only its own links.
///
/// # Errors
/// When the file is missing, not regular, or cannot be opened, or root meets a link of another user.
pub fn open_named_file(path: &Path) -> Result<File, FileError> {
    if rustix::process::geteuid().is_root() {
        let (walk, name) = Walk::of(path, Missing::Fail, Links::OfRoot)?.file()?;
        return open_regular(&walk.here, Path::new(&name), path, FILE_FLAGS);
    }
    open_regular(rustix::fs::CWD, path, path, FILE_FLAGS.difference(OFlags::NOFOLLOW))
}

/// Opens a configuration, which decides what root's commands do. As root, it refuses a file that another user can change,
/// or can replace in a directory on the way. For every other user, it is [`open_named_file`].
///
/// # Errors
/// As [`open_named_file`], and when another user can change the file or replace it.
pub fn open_trusted_file(path: &Path) -> Result<File, FileError> {
    if !rustix::process::geteuid().is_root() {
        return open_named_file(path);
    }
    let (walk, name) = Walk::of(path, Missing::Fail, Links::OfRoot)?.file()?;
    let file = open_regular(&walk.here, Path::new(&name), path, FILE_FLAGS)?;
    let facts = EntryFacts::of(&rustix::fs::fstat(&file).map_err(|error| FileError::system(path, error))?);
    if walk.is_of_root_alone() && facts.owner.uid == FileOwner::ROOT && !facts.is_open_to_others() {
        Ok(file)
    } else {
        Err(FileError::refused(path, FileRefusal::NotOfRootAlone))
    }
}

fn open_regular(directory: impl AsFd, name: &Path, path: &Path, flags: OFlags) -> Result<File, FileError> {
    let failed = |error: Errno| match error {
        Errno::LOOP if flags.contains(OFlags::NOFOLLOW) => FileError::refused(path, FileRefusal::SymbolicLink),
        error => FileError::system(path, error),
    };
    let follow = if flags.contains(OFlags::NOFOLLOW) { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
    // The open of a device can have an effect, so the kind is checked before; and after, since it may be replaced.
    let before = EntryFacts::of(&rustix::fs::statat(&directory, name, follow).map_err(failed)?);
    let check = |facts: EntryFacts| match facts.kind.refusal_as_file() {
        Some(refusal) => Err(FileError::refused(path, refusal)),
        None => Ok(()),
    };
    check(before)?;
    let file = File::from(rustix::fs::openat(&directory, name, flags, Mode::empty()).map_err(failed)?);
    check(EntryFacts::of(&rustix::fs::fstat(&file).map_err(failed)?))?;
    Ok(file)
}

/// What the caller does with a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileUse {
    Read,
    Change,
}

impl OpenDirectory {
    /// Opens a file to read it.
    ///
    /// # Errors
    /// When the file is missing, or is refused: see [`FileRefusal`]. A file with a second name must belong to the owner
    /// of the directory.
    pub fn open_file(&self, name: impl AsRef<OsStr>) -> Result<File, FileError> {
        let (name, path) = self.entry(name.as_ref())?;
        self.open_checked(&name, &path, OFlags::RDONLY, FileUse::Read)
    }

    /// Reads a whole file of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Self::open_file`], and for a longer file.
    pub fn read_limited(&self, name: impl AsRef<OsStr>, limit: u64) -> Result<Vec<u8>, FileError> {
        let (name, path) = self.entry(name.as_ref())?;
        let file = self.open_checked(&name, &path, OFlags::RDONLY, FileUse::Read)?;
        let mut bytes = Vec::new();
        // The file may grow while it is read.
        let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| FileError::system(&path, error))?;
        if bytes.len() as u64 > limit {
            return Err(FileError::refused(&path, FileRefusal::TooLong { limit }));
        }
        Ok(bytes)
    }

    /// Creates a file and opens it to read and write. It belongs to the caller.
    ///
    /// # Errors
    /// When the name is taken, also by a link; or the file cannot be created.
    pub fn create_file(&self, name: impl AsRef<OsStr>, mode: u32) -> Result<File, FileError> {
        let (name, path) = self.entry(name.as_ref())?;
        self.create_new(&name, OFlags::RDWR, mode).map_err(|error| FileError::system(&path, error))
    }

    /// Creates a file. `O_EXCL` refuses a link, also one that leads to nothing.
    fn create_new(&self, name: &CString, flags: OFlags, mode: u32) -> Result<File, Errno> {
        let flags = flags.union(FILE_FLAGS).union(OFlags::CREATE).union(OFlags::EXCL);
        rustix::fs::openat(self.as_fd(), name, flags, Mode::from_raw_mode(mode)).map(File::from)
    }

    /// Opens a file to append to it; creates it for the owner of this directory if it is missing.
    ///
    /// # Errors
    /// When the file cannot be created or opened, or is refused.
    pub fn append_file(&self, name: impl AsRef<OsStr>, mode: u32) -> Result<File, FileError> {
        self.open_or_create_with(name.as_ref(), OFlags::WRONLY.union(OFlags::APPEND), mode)
    }

    /// Opens a file to read and change it; creates it for the owner of this directory if it is missing. Its content
    /// stays.
    ///
    /// # Errors
    /// When the file cannot be created or opened, or is refused.
    pub fn change_file(&self, name: impl AsRef<OsStr>, mode: u32) -> Result<File, FileError> {
        self.open_or_create_with(name.as_ref(), OFlags::RDWR, mode)
    }

    fn open_or_create_with(&self, name: &OsStr, flags: OFlags, mode: u32) -> Result<File, FileError> {
        let (checked, path) = self.entry(name)?;
        for _ in 0..MOST_ATTEMPTS {
            match self.open_checked(&checked, &path, flags, FileUse::Change) {
                Err(error) if error.is_missing() => {}
                opened => return opened,
            }
            match self.create_new(&checked, flags, mode) {
                Ok(created) => return self.give(&created, name, self.owner()).map(|()| created),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(FileError::system(&path, error)),
            }
        }
        Err(FileError::system(&path, Errno::AGAIN))
    }

    /// Checks without opening it that a file may be changed: it is missing, or regular, with one name, and of the owner
    /// of this directory, root or the caller. For libraries that open files by their path.
    ///
    /// # Errors
    /// When the file is refused.
    pub fn check_file(&self, name: impl AsRef<OsStr>) -> Result<Option<EntryFacts>, FileError> {
        let facts = self.facts(name.as_ref())?;
        if let Some(facts) = &facts {
            let checked = self.check_facts(facts, FileUse::Change);
            checked.map_err(|refusal| FileError::refused(&self.path().join(name.as_ref()), refusal))?;
        }
        Ok(facts)
    }

    /// Gives an open file of this directory to a user, if the caller is root. It must have one name, and belong to the
    /// owner of the directory, root or the caller.
    ///
    /// # Errors
    /// When the file is refused, or the owner cannot be changed.
    pub fn give(&self, file: &File, name: impl AsRef<OsStr>, owner: FileOwner) -> Result<(), FileError> {
        let path = self.path().join(name.as_ref());
        let stat = rustix::fs::fstat(file).map_err(|error| FileError::system(&path, error))?;
        let checked = self.check_facts(&EntryFacts::of(&stat), FileUse::Change);
        checked.map_err(|refusal| FileError::refused(&path, refusal))?;
        change_owner(file, owner).map_err(|error| FileError::system(&path, error))
    }

    fn open_checked(&self, name: &CString, path: &Path, flags: OFlags, purpose: FileUse) -> Result<File, FileError> {
        let refused = |refusal| FileError::refused(path, refusal);
        // The open of a device can have an effect, so the kind is checked before; and after, since it may be replaced.
        let before = self.facts_of(name).map_err(|error| FileError::system(path, error))?;
        self.check_facts(&before, purpose).map_err(refused)?;
        let file = match rustix::fs::openat(self.as_fd(), name, flags.union(FILE_FLAGS), Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::LOOP) => return Err(refused(FileRefusal::SymbolicLink)),
            Err(error) => return Err(FileError::system(path, error)),
        };
        let opened = rustix::fs::fstat(&file).map_err(|error| FileError::system(path, error))?;
        self.check_facts(&EntryFacts::of(&opened), purpose).map_err(refused)?;
        Ok(file)
    }

    fn check_facts(&self, facts: &EntryFacts, purpose: FileUse) -> Result<(), FileRefusal> {
        if let Some(refusal) = facts.kind.refusal_as_file() {
            return Err(refusal);
        }
        self.check_owner(facts)?;
        // Programs link messages of one Maildir, and a copy of a directory may share files. But a second name of a file
        // of root may exist only to make root read or change it.
        let may_have_names = purpose == FileUse::Read && facts.owner.uid == self.owner().uid;
        if facts.links > 1 && !may_have_names { Err(FileRefusal::HardLinks) } else { Ok(()) }
    }
}

/// Changes the owner by the handle. Only root can, so other callers keep what they have created.
pub(crate) fn change_owner(file: impl AsFd, owner: FileOwner) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Ok(rustix::fs::fchown(file, Some(Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid)))?)
}
