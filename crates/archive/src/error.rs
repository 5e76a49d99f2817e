//! Errors of archives.

use std::io;
use std::path::Path;

use mailapi_backend::BufferError;
use mailapi_files::{FileError, FileRefusal};

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
    /// An entry of a directory was refused, or failed.
    #[error(transparent)]
    Entry(#[from] FileError),
    /// A message cannot be buffered.
    #[error(transparent)]
    Buffer(#[from] BufferError),
}

impl ArchiveError {
    pub(crate) fn form(path: &Path, reason: &'static str) -> Self {
        Self::Form { place: path.display().to_string(), reason }
    }

    /// Returns whether another user could have caused the error, by what is in the directory.
    #[must_use]
    pub const fn is_of_content(&self) -> bool {
        matches!(self, Self::Form { .. } | Self::Entry(FileError::Refused { .. }))
    }
}

/// Returns the refusal of a file that is longer than its reader accepts.
pub(crate) fn too_long(path: &Path, limit: u64) -> FileError {
    FileError::Refused { path: path.to_owned(), refusal: FileRefusal::TooLong { limit } }
}

/// Adds the path to the error of a file operation.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> ArchiveError + '_ {
    |error| ArchiveError::File { place: path.display().to_string(), error }
}
