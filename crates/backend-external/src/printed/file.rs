//! A file for another program.

use mailapi_files::{FileError, OpenDirectory};

/// Readable by owner and group only: the file contains a password.
const SECRET_MODE: u32 = 0o640;
const SCRIPT_MODE: u32 = 0o755;

/// A configuration file of another program. It may contain passwords, so it has no `Debug` form and never appears in
/// errors or logs.
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

    /// Returns the file name without a directory.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the content, including passwords.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes the file into a directory, replacing an older one. The rename is atomic, and the new file has its mode
    /// from the start.
    ///
    /// # Errors
    /// If the file cannot be written, or something else than a file is in its place.
    pub fn write(&self, directory: &OpenDirectory) -> Result<(), FileError> {
        directory.replace_file(self.name, self.text.as_bytes(), self.mode, None)
    }
}
