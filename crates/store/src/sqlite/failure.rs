//! Translates SQLite errors.

use rusqlite::{Error, ErrorCode, ffi};

use crate::StoreError;

/// Texts of failed computations that repeat no value.
const WITHOUT_VALUES: [&str; 2] = ["integer overflow", "malformed JSON"];

impl From<Error> for StoreError {
    /// Keeps the error condition and drops all texts that may repeat a bound value, as full-text queries do.
    fn from(error: Error) -> Self {
        match error {
            Error::SqliteFailure(failure, message) => from_failure(failure, message.as_deref()),
            Error::SqlInputError { error, msg, .. } => {
                Self::unexpected(format!("{} ({msg})", ffi::code_to_str(error.extended_code)))
            }
            Error::QueryReturnedNoRows => Self::unexpected("a row is missing"),
            Error::QueryReturnedMoreThanOneRow => Self::unexpected("several rows instead of one"),
            Error::InvalidColumnType(_, name, kind) => {
                Self::unexpected(format!("column {name} has the unexpected type {kind}"))
            }
            Error::FromSqlConversionFailure(column, kind, _) => {
                Self::unexpected(format!("column {column} cannot be read from {kind}"))
            }
            Error::IntegralValueOutOfRange(column, _) => {
                Self::unexpected(format!("the number in column {column} is out of range"))
            }
            Error::InvalidColumnIndex(column) => Self::unexpected(format!("there is no column {column}")),
            Error::InvalidColumnName(name) => Self::unexpected(format!("there is no column {name}")),
            Error::InvalidParameterCount(given, wanted) => {
                Self::unexpected(format!("{given} parameters instead of {wanted}"))
            }
            Error::MultipleStatement => Self::unexpected("several statements instead of one"),
            Error::ExecuteReturnedResults => Self::unexpected("a statement returned rows"),
            _ => Self::unexpected("SQLite rejected a statement or a value"),
        }
    }
}

fn from_failure(failure: ffi::Error, message: Option<&str>) -> StoreError {
    let condition = ffi::code_to_str(failure.extended_code).to_owned();
    match failure.code {
        // SQLite had no room to enlarge the index of the log.
        _ if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => StoreError::DiskFull,
        ErrorCode::ConstraintViolation => constraint(failure.extended_code, message),
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::OutOfMemory
        | ErrorCode::ReadOnly
        | ErrorCode::SystemIoFailure
        | ErrorCode::CannotOpen
        | ErrorCode::PermissionDenied
        | ErrorCode::FileLockingProtocolFailed
        | ErrorCode::OperationInterrupted => StoreError::Unavailable(condition),
        ErrorCode::DiskFull => StoreError::DiskFull,
        // The condition alone is "SQL logic error".
        _ if message.is_some_and(|text| WITHOUT_VALUES.contains(&text)) => {
            StoreError::Unexpected(message.unwrap_or(&condition).to_owned())
        }
        _ => StoreError::Unexpected(condition),
    }
}

fn constraint(extended_code: i32, message: Option<&str>) -> StoreError {
    // SQLite names columns and checks here, never values: "UNIQUE constraint failed: accounts.email".
    let name = message.and_then(|text| text.split_once(": ")).map_or("unnamed", |(_, name)| name).to_owned();
    match extended_code {
        ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_ROWID => {
            StoreError::Conflict(name)
        }
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => StoreError::Reference,
        _ => StoreError::Unexpected(format!("a row violates the constraint {name}")),
    }
}
