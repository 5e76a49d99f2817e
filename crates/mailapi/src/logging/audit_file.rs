//! The audit log of the command line. It is a file, because the log of a command is not kept.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use mailapi_files::{FileError, OpenDirectory};
use tracing_subscriber::fmt::MakeWriter;

/// File name in the data directory.
const NAME: &str = "audit.log";
/// Only the owner may read the file: it names users.
const MODE: u32 = 0o600;

/// Opens the file for each line: few commands change anything, and log rotation may move the file.
pub(super) struct AuditFile(PathBuf);

impl AuditFile {
    /// Returns the audit file of this data directory.
    pub(super) fn in_directory(data_dir: &Path) -> Self {
        Self(data_dir.to_owned())
    }

    /// Root may create the file; it then belongs to the owner of the data directory, who must be able to append to it.
    fn open(&self) -> Result<impl Write + use<>, FileError> {
        OpenDirectory::open(&self.0)?.append_file(NAME, MODE)
    }
}

impl<'a> MakeWriter<'a> for AuditFile {
    type Writer = Box<dyn Write>;

    fn make_writer(&'a self) -> Self::Writer {
        match self.open() {
            Ok(file) => Box::new(file),
            // The change has been made, so its audit line must appear somewhere.
            Err(error) => {
                let mut output = io::stderr();
                let _ = writeln!(output, "the audit log cannot be written, so the line follows: {error}");
                Box::new(output)
            }
        }
    }
}
