//! The audit log of the command line. It is a file, because the log of a command is not kept.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

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
        Self(data_dir.join(NAME))
    }

    fn open(&self) -> io::Result<File> {
        let file = OpenOptions::new().append(true).create(true).mode(MODE).open(&self.0)?;
        // Root may create the file, and the owner of the data directory must be able to append to it.
        if let Some(Ok(directory)) = self.0.parent().map(std::fs::metadata) {
            let _ = fchown(&file, Some(directory.uid()), Some(directory.gid()));
        }
        Ok(file)
    }
}

impl<'a> MakeWriter<'a> for AuditFile {
    type Writer = Box<dyn Write>;

    fn make_writer(&'a self) -> Self::Writer {
        // The change has been made, so its audit line must appear somewhere.
        self.open().map_or_else(|_| Box::new(io::stderr()) as Box<dyn Write>, |file| Box::new(file))
    }
}
