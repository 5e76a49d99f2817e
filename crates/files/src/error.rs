//! Why an operation on an entry of a directory failed.

use std::io;
use std::path::{Path, PathBuf};

/// Failure of an operation, with the path of the entry.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The entry exists and must not be used.
    #[error("{}: refused, because it {refusal}", path.display())]
    Refused {
        /// Path of the entry; only for messages.
        path: PathBuf,
        /// The reason.
        refusal: FileRefusal,
    },
    /// The system's error.
    #[error("{}: {error}", path.display())]
    System {
        /// Path of the entry; only for messages.
        path: PathBuf,
        /// The error of the system call.
        error: io::Error,
    },
}

/// The reason for which an entry is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FileRefusal {
    /// The target of a link is unknown.
    #[error("is a symbolic link")]
    SymbolicLink,
    /// Root follows only its own links: another user can change the target of this one.
    #[error("is a symbolic link of another user (uid {uid})")]
    ForeignLink {
        /// Number of the owner.
        uid: u32,
    },
    /// Reading a FIFO waits for its other end.
    #[error("is a FIFO")]
    Fifo,
    /// A socket has no content.
    #[error("is a socket")]
    Socket,
    /// A device may have no end.
    #[error("is a device")]
    Device,
    /// Commands of root depend on the file, and another user can change it or replace it.
    #[error("can be changed by another user than root")]
    NotOfRootAlone,
    /// A file was expected.
    #[error("is a directory")]
    Directory,
    /// A directory was expected.
    #[error("is no directory")]
    NotDirectory,
    /// Neither the owner of the directory, nor root, nor the user of this process owns the entry.
    #[error("belongs to another user")]
    OtherOwner,
    /// The file has a second name, possibly in a directory of another user.
    #[error("has more than one hard link")]
    HardLinks,
    /// The file is longer than its reader accepts.
    #[error("is longer than {limit} bytes")]
    TooLong {
        /// Maximum length in bytes.
        limit: u64,
    },
    /// The name would leave the directory.
    #[error("is not the name of an entry")]
    BadName,
}

impl FileError {
    pub(crate) fn refused(path: &Path, refusal: FileRefusal) -> Self {
        Self::Refused { path: path.to_owned(), refusal }
    }

    pub(crate) fn system(path: &Path, error: impl Into<io::Error>) -> Self {
        Self::System { path: path.to_owned(), error: error.into() }
    }

    /// Returns why the entry was refused; `None` for an error of the system.
    #[must_use]
    pub fn refusal(&self) -> Option<FileRefusal> {
        match self {
            Self::Refused { refusal, .. } => Some(*refusal),
            Self::System { .. } => None,
        }
    }

    /// Returns whether the entry does not exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::System { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }

    /// Returns whether the entry exists, and should not.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        matches!(self, Self::System { error, .. } if error.kind() == io::ErrorKind::AlreadyExists)
    }
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        let kind = match &error {
            FileError::System { error, .. } => error.kind(),
            FileError::Refused { .. } => io::ErrorKind::PermissionDenied,
        };
        Self::new(kind, error)
    }
}
