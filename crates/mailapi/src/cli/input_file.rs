//! Files that the caller names as arguments.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Display, PathBuf};
use std::sync::Arc;

use crate::named_file;

/// A file that is opened while the arguments are parsed. The command may then take the identity of a user who cannot open
/// it.
#[derive(Debug, Clone)]
pub(super) struct InputFile {
    path: PathBuf,
    opened: Arc<io::Result<File>>,
}

impl From<OsString> for InputFile {
    fn from(path: OsString) -> Self {
        let path = PathBuf::from(path);
        let opened = Arc::new(named_file::open(&path));
        Self { path, opened }
    }
}

impl InputFile {
    /// Returns the file, or why it cannot be opened.
    pub(super) fn reader(&self) -> io::Result<&File> {
        self.opened.as_ref().as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))
    }

    /// Returns the path for messages.
    pub(super) fn display(&self) -> Display<'_> {
        self.path.display()
    }
}
