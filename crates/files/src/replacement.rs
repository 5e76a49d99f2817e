//! Renames entries, and replaces files whole.

use std::ffi::OsStr;
use std::io::Write;
use std::os::fd::AsFd;

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

    /// Writes a whole file, replaces an earlier one in one step, and makes it durable. It belongs to `owner` if the
    /// caller is root.
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
        let mut file = self.create_file(&part, mode)?;
        if let Some(owner) = owner {
            self.give(&file, &part, owner)?;
        }
        let written = file.write_all(content).and_then(|()| file.sync_all());
        written.map_err(|error| FileError::system(&self.path().join(&part), error))?;
        self.rename(&part, self, name)?;
        self.sync()
    }
}
