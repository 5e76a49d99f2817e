//! Errors of the index.

use std::io;

use rusqlite::ffi;

/// Why the index failed. The texts never contain search terms or mail.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IndexError {
    /// The file is damaged, or belongs to another mailbox.
    #[error("the file is damaged: {0}")]
    Damaged(String),
    /// The file cannot be read or written at the moment.
    #[error("the file cannot be used: {0}")]
    Unusable(String),
    /// The time limit was exceeded.
    #[error("the operation took too long")]
    TooLong,
    /// Other searches hold the permits.
    #[error("too many searches are running")]
    Busy,
}

impl From<rusqlite::Error> for IndexError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{
            CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, OperationInterrupted, OutOfMemory, PermissionDenied,
            ReadOnly, SystemIoFailure,
        };
        let rusqlite::Error::SqliteFailure(failure, _) = error else {
            return Self::Damaged("a row is invalid".to_owned());
        };
        let condition = ffi::code_to_str(failure.extended_code).to_owned();
        match failure.code {
            OperationInterrupted => Self::TooLong,
            CannotOpen | DatabaseBusy | DatabaseLocked | DiskFull | OutOfMemory | PermissionDenied | ReadOnly
            | SystemIoFailure => Self::Unusable(condition),
            _ => Self::Damaged(condition),
        }
    }
}

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> Self {
        Self::Unusable(error.to_string())
    }
}
