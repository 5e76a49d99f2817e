//! Removes entries.

use std::ffi::OsStr;
use std::os::fd::AsFd;

use rustix::fs::AtFlags;
use rustix::io::Errno;

use crate::OpenDirectory;
use crate::entry::EntryKind;
use crate::error::FileError;

impl OpenDirectory {
    /// Removes a file; returns whether it was there.
    ///
    /// # Errors
    /// When the entry is no regular file, or cannot be removed.
    pub fn remove_file(&self, name: impl AsRef<OsStr>) -> Result<bool, FileError> {
        match self.facts(name.as_ref())?.map(|facts| facts.kind.refusal_as_file()) {
            None => Ok(false),
            Some(Some(refusal)) => Err(FileError::refused(&self.path().join(name.as_ref()), refusal)),
            // A link that replaces the file now is removed itself: its target stays.
            Some(None) => self.unlink(name.as_ref(), AtFlags::empty()),
        }
    }

    /// Removes an empty directory; returns whether it was there.
    ///
    /// # Errors
    /// When the entry is no empty directory, or cannot be removed.
    pub fn remove_directory(&self, name: impl AsRef<OsStr>) -> Result<bool, FileError> {
        self.unlink(name.as_ref(), AtFlags::REMOVEDIR)
    }

    /// Removes a directory with everything in it; returns whether it was there. Links in it are removed themselves.
    ///
    /// # Errors
    /// When the entry is no directory, or belongs to another user, or an entry cannot be removed.
    pub fn remove_tree(&self, name: impl AsRef<OsStr>) -> Result<bool, FileError> {
        let name = name.as_ref();
        let directory = match self.directory(name) {
            Ok(directory) => directory,
            Err(error) if error.is_missing() => return Ok(false),
            Err(error) => return Err(error),
        };
        for entry in directory.entries()? {
            match entry.kind {
                EntryKind::Directory => directory.remove_tree(&entry.name)?,
                _ => directory.unlink(&entry.name, AtFlags::empty())?,
            };
        }
        self.remove_directory(name)
    }

    fn unlink(&self, name: &OsStr, flags: AtFlags) -> Result<bool, FileError> {
        let (name, path) = self.entry(name)?;
        match rustix::fs::unlinkat(self.as_fd(), &name, flags) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(FileError::system(&path, error)),
        }
    }
}
