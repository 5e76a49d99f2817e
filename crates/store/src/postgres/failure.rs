//! Translates PostgreSQL errors, and decides whether the work can be retried.

use std::borrow::Cow;

use deadpool_postgres::PoolError;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

use crate::StoreError;

/// A failed unit of work.
#[derive(Debug)]
pub(crate) struct Failed {
    /// The error for the caller, if there is no retry.
    pub(crate) error: StoreError,
    /// Whether nothing was stored and a retry may succeed.
    pub(crate) again: bool,
    /// Whether the connection is unusable.
    pub(crate) broken: bool,
}

/// Whether failed work may have been committed all the same, because only the server's answer is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// COMMIT was not sent.
    Nothing,
    /// COMMIT may have reached the server.
    Perhaps,
}

impl Failed {
    /// Work that was rejected before anything was sent.
    pub(crate) const fn refused(error: StoreError) -> Self {
        Self { error, again: false, broken: false }
    }

    /// The server did not answer in time.
    pub(super) fn timed_out() -> Self {
        let error = StoreError::Unavailable("the server does not respond".to_owned());
        Self { error, again: false, broken: true }
    }

    /// Classifies an error of the client library.
    pub(crate) fn of(error: &Error, kept: Kept) -> Self {
        let again = kept == Kept::Nothing;
        let Some(failure) = error.as_db_error() else {
            return Self { error: transport(error), again, broken: true };
        };
        let code = failure.code();
        if is_in_the_way(code) {
            let error = StoreError::Unavailable(format!("conflicting transactions ({})", code.code()));
            return Self { error, again: true, broken: false };
        }
        if is_forgotten_statement(failure) {
            let error = StoreError::unexpected("a prepared statement no longer matches the tables");
            return Self { error, again: true, broken: true };
        }
        let error = translated(failure);
        match code.code().get(..2) {
            // Class 08 is connection failure, 57P operator intervention: this connection is lost.
            Some("08") => Self { error, again, broken: true },
            _ if code.code().starts_with("57P") => Self { error, again, broken: true },
            // The server became a standby; another connection may find the new primary.
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Self { error, again: false, broken: true },
            _ => Self { error, again: false, broken: false },
        }
    }
}

/// Serialization failures and deadlocks: the server rolled back, and a retry may succeed.
fn is_in_the_way(code: &SqlState) -> bool {
    *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
}

/// Prepared statements become invalid after a migration by another node, or with a pooler that mixes
/// sessions. A fresh connection prepares them again.
fn is_forgotten_statement(failure: &DbError) -> bool {
    let code = failure.code();
    let changed = *code == SqlState::FEATURE_NOT_SUPPORTED && failure.routine() == Some("RevalidateCachedQuery");
    changed || *code == SqlState::INVALID_SQL_STATEMENT_NAME
}

/// Translates a server error. Names constraints, columns and conditions only: the server's message may repeat
/// values.
fn translated(failure: &DbError) -> StoreError {
    let code = failure.code();
    let constraint = || failure.constraint().or(failure.column()).unwrap_or("unnamed").to_owned();
    if *code == SqlState::UNIQUE_VIOLATION {
        return StoreError::Conflict(constraint());
    }
    if *code == SqlState::FOREIGN_KEY_VIOLATION || code.code() == "23001" {
        return StoreError::Reference;
    }
    match code.code().get(..2).unwrap_or_default() {
        "23" => StoreError::Unexpected(format!("a row violates the constraint {}", constraint())),
        // Syntax or schema errors: their messages quote only the statement's text, never values.
        "42" => StoreError::Unexpected(format!("{} ({})", code.code(), failure.message())),
        // Connection, resources, locks, operator, I/O, and a server that is read-only.
        "08" | "53" | "55" | "57" | "58" | "25" => StoreError::Unavailable(condition(code)),
        // Authentication failed, or the database does not exist.
        "28" | "3D" => StoreError::Unavailable(format!("{} ({})", failure.message(), code.code())),
        // Data, limits, unsupported features, internal errors.
        "0A" | "21" | "22" | "54" | "XX" => {
            StoreError::Unexpected(format!("{} ({})", without_values(failure.message()), code.code()))
        }
        // A function of the operator's raised it, so its text may be anything.
        _ => StoreError::Unexpected(code.code().to_owned()),
    }
}

/// Cuts a message of the server before the first quotation mark, of whatever language: values are quoted.
fn without_values(message: &str) -> Cow<'_, str> {
    match message.split_once(['"', '\'', '`', '«', '»', '„', '“', '”', '‘', '’', '‚', '「', '『']) {
        None => message.into(),
        Some((words, _)) => format!("{words}…").into(),
    }
}

fn condition(code: &SqlState) -> String {
    let name = match code.code() {
        "57014" => "a statement took too long",
        "57P01" | "57P02" => "the server is shutting down",
        "57P03" => "the server is starting up",
        "53100" => "the disk is full",
        "53300" => "the server has too many connections",
        "25006" => "the server is read-only",
        _ => return code.code().to_owned(),
    };
    format!("{name} ({})", code.code())
}

/// Translates an error of the client library. Such errors contain no values; the cause explains why the
/// server is unreachable.
fn transport(error: &Error) -> StoreError {
    use std::error::Error as _;
    match error.source() {
        Some(cause) if !cause.is::<DbError>() => StoreError::Unavailable(format!("{error}: {cause}")),
        _ => StoreError::Unavailable(error.to_string()),
    }
}

/// Translates an error of the pool.
pub(super) fn unreachable(error: &PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => connecting(error),
        PoolError::Timeout(_) => none_free(),
        PoolError::Closed => StoreError::closed(),
        PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
            StoreError::unexpected("the connection pool is not configured")
        }
    }
}

/// All connections were in use until the time-out.
pub(super) fn none_free() -> StoreError {
    StoreError::Unavailable("no connection became free in time".to_owned())
}

/// Translates a failure to connect. Whatever the cause, the database is unavailable.
pub(super) fn connecting(error: &Error) -> StoreError {
    match error.as_db_error() {
        Some(failure) => StoreError::Unavailable(format!("{} ({})", failure.message(), failure.code().code())),
        None => transport(error),
    }
}
