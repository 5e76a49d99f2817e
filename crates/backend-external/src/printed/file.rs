//! A file that another program reads.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Readable by the owner and the group alone: the file holds a password.
const SECRET_MODE: u32 = 0o640;
const SCRIPT_MODE: u32 = 0o755;

/// A file of another program's configuration. It may hold passwords, so it is not shown in errors or logs.
pub struct PrintedFile {
    name: &'static str,
    text: String,
    mode: u32,
}

impl PrintedFile {
    pub(super) const fn secret(name: &'static str, text: String) -> Self {
        Self { name, text, mode: SECRET_MODE }
    }

    pub(super) const fn script(name: &'static str, text: String) -> Self {
        Self { name, text, mode: SCRIPT_MODE }
    }

    /// Its name, without a directory.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What it holds, passwords included.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes it into a directory, over an older one. A reader sees the old file or the new one, and the new one with
    /// its mode from the beginning.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, directory: &Path) -> std::io::Result<()> {
        let new = directory.join(format!("{}.new", self.name));
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(self.mode).open(&new)?;
        file.write_all(self.text.as_bytes())?;
        std::fs::rename(&new, directory.join(self.name))
    }
}
