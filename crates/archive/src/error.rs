//! Errors of archives.

use std::io;
use std::path::Path;

use mailapi_backend::BufferError;

/// Why an archive cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file or directory failed.
    #[error("{place}: {error}")]
    File {
        /// The file or directory.
        place: String,
        /// The failure.
        error: io::Error,
    },
    /// The archive does not have the expected form.
    #[error("{place}: {reason}")]
    Form {
        /// The file or directory.
        place: String,
        /// The reason.
        reason: &'static str,
    },
    /// A message cannot be buffered.
    #[error(transparent)]
    Buffer(#[from] BufferError),
}

impl ArchiveError {
    pub(crate) fn form(path: &Path, reason: &'static str) -> Self {
        Self::Form { place: path.display().to_string(), reason }
    }
}

/// Adds the path to the error of a file operation.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> ArchiveError + '_ {
    |error| ArchiveError::File { place: path.display().to_string(), error }
}
