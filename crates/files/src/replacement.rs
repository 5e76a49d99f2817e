//! Renames entries, and replaces files whole.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::fs::Mode;
use rustix::io::Errno;

use crate::OpenDirectory;
use crate::entry::FileOwner;
use crate::error::FileError;

impl OpenDirectory {
    /// Renames an entry of this directory to a name in `to`, and replaces a file there. Links are renamed and replaced
    /// themselves.
    ///
    /// # Errors
    /// When the entry is missing, or the system cannot rename it.
    pub fn rename(
        &self,
        name: impl AsRef<OsStr>,
        to: &OpenDirectory,
        new_name: impl AsRef<OsStr>,
    ) -> Result<(), FileError> {
        let (name, _) = self.entry(name.as_ref())?;
        let (new_name, path) = to.entry(new_name.as_ref())?;
        let renamed = rustix::fs::renameat(self.as_fd(), &name, to.as_fd(), &new_name);
        renamed.map_err(|error| FileError::system(&path, error))
    }

    /// Renames an entry of this directory to a new name in `to`.
    ///
    /// # Errors
    /// When the new name is taken, also by a link or a directory; or the system cannot rename the entry.
    pub fn rename_new(
        &self,
        name: impl AsRef<OsStr>,
        to: &OpenDirectory,
        new_name: impl AsRef<OsStr>,
    ) -> Result<(), FileError> {
        let (old, new_name) = (name.as_ref(), new_name.as_ref());
        let (from, _) = self.entry(old)?;
        let (checked, path) = to.entry(new_name)?;
        match rename_without_replacing(self, &from, to, &checked) {
            Ok(()) => Ok(()),
            // Some network file systems lack the flag.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if to.facts(new_name)?.is_none() => {
                self.rename(old, to, new_name)
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Err(FileError::system(&path, Errno::EXIST)),
            Err(error) => Err(FileError::system(&path, error)),
        }
    }

    /// Writes a whole file with exactly this mode, replaces an earlier one in one step, and makes it durable. It belongs to
    /// `owner` if the caller is root.
    ///
    /// # Errors
    /// When something else than a file is in the place of the file or of its new version, or it cannot be written. The
    /// earlier file then remains.
    pub fn replace_file(
        &self,
        name: impl AsRef<OsStr>,
        content: &[u8],
        mode: u32,
        owner: Option<FileOwner>,
    ) -> Result<(), FileError> {
        let name = name.as_ref();
        self.check_file(name)?;
        let mut part = name.to_owned();
        part.push(".new");
        // A crash may have left one.
        self.remove_file(&part)?;
        let file = self.write_new_file(&part, content, mode)?;
        if let Some(owner) = owner {
            self.give(&file, &part, owner)?;
        }
        self.rename(&part, self, name)?;
        self.sync()
    }

    /// Creates a file with this content and exactly this mode, and makes the content durable. It belongs to the caller.
    ///
    /// # Errors
    /// When the name is taken, or the file cannot be written.
    pub fn write_new_file(&self, name: impl AsRef<OsStr>, content: &[u8], mode: u32) -> Result<File, FileError> {
        let path = self.path().join(name.as_ref());
        let failed = |error: io::Error| FileError::system(&path, error);
        let mut file = self.create_file(name, mode)?;
        file.write_all(content).map_err(failed)?;
        // Whatever the umask is: other programs may have to read the file.
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(|error| failed(error.into()))?;
        file.sync_all().map_err(failed)?;
        Ok(file)
    }
}

#[cfg(target_os = "linux")]
fn rename_without_replacing(
    from: &OpenDirectory,
    name: &CStr,
    to: &OpenDirectory,
    new_name: &CStr,
) -> Result<(), Errno> {
    rustix::fs::renameat_with(from.as_fd(), name, to.as_fd(), new_name, rustix::fs::RenameFlags::NOREPLACE)
}

#[cfg(not(target_os = "linux"))]
fn rename_without_replacing(_: &OpenDirectory, _: &CStr, _: &OpenDirectory, _: &CStr) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}
