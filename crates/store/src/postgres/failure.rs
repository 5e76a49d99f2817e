//! PostgreSQL's errors in the store's words, and what may be done about them.

use deadpool_postgres::PoolError;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

use crate::StoreError;

/// A piece of work that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    /// What the caller is told when it is not tried again.
    pub(crate) error: StoreError,
    /// Whether nothing was kept, and the same work may do on the next try.
    pub(crate) again: bool,
    /// Whether the connection cannot be used any more.
    pub(crate) broken: bool,
}

/// Whether a failed piece of work may have been kept all the same: the server was told to, and its answer is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The end of the work was not sent.
    Nothing,
    /// The end of the work was on its way.
    Perhaps,
}

impl Failed {
    /// Work that is refused before anything is sent.
    pub(crate) const fn refused(error: StoreError) -> Self {
        Self { error, again: false, broken: false }
    }

    /// The server is silent for too long.
    pub(super) fn timed_out() -> Self {
        let error = StoreError::Unavailable("the server does not answer".to_owned());
        Self { error, again: false, broken: true }
    }

    /// What an error of the client library means.
    pub(crate) fn of(error: &Error, kept: Kept) -> Self {
        let again = kept == Kept::Nothing;
        let Some(failure) = error.as_db_error() else {
            return Self { error: transport(error), again, broken: true };
        };
        let code = failure.code();
        if is_in_the_way(code) {
            let error = StoreError::Unavailable(format!("others were in the way ({})", code.code()));
            return Self { error, again: true, broken: false };
        }
        if is_forgotten_statement(failure) {
            let error = StoreError::unexpected("a prepared statement no longer fits the tables");
            return Self { error, again: true, broken: true };
        }
        let error = translated(failure);
        match code.code().get(..2) {
            // 08 connection, 57P operator's intervention: this connection is gone.
            Some("08") => Self { error, again, broken: true },
            _ if code.code().starts_with("57P") => Self { error, again, broken: true },
            // A server that became a standby; another connection may find the one that takes changes.
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Self { error, again: false, broken: true },
            _ => Self { error, again: false, broken: false },
        }
    }
}

/// Serialization failures and deadlocks: the server has undone the transaction, and says that it may work again.
fn is_in_the_way(code: &SqlState) -> bool {
    *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
}

/// After a migration by another node, or behind a pooler that mixes sessions: a fresh connection prepares anew.
fn is_forgotten_statement(failure: &DbError) -> bool {
    let code = failure.code();
    let changed = *code == SqlState::FEATURE_NOT_SUPPORTED && failure.routine() == Some("RevalidateCachedQuery");
    changed || *code == SqlState::INVALID_SQL_STATEMENT_NAME
}

/// Names constraints, columns and conditions; a message of the server may repeat values.
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
        "23" => StoreError::Unexpected(format!("a row breaks the rule {}", constraint())),
        // Faulty statements: the message is about their text, and values are not part of it.
        "42" => StoreError::Unexpected(format!("{} ({})", code.code(), failure.message())),
        // Connection, resources, operator, input and output, locks, and a server that does not take changes.
        "08" | "53" | "55" | "57" | "58" | "25" => StoreError::Unavailable(condition(code)),
        // Who may connect, and to what.
        "28" | "3D" => StoreError::Unavailable(format!("{} ({})", failure.message(), code.code())),
        _ => StoreError::Unexpected(code.code().to_owned()),
    }
}

fn condition(code: &SqlState) -> String {
    let name = match code.code() {
        "57014" => "a statement took too long",
        "57P01" | "57P02" => "the server is shutting down",
        "57P03" => "the server is starting up",
        "53100" => "the disk is full",
        "53300" => "the server has too many connections",
        "25006" => "the server takes no changes",
        _ => return code.code().to_owned(),
    };
    format!("{name} ({})", code.code())
}

/// The library's own errors hold no values; that of an unreachable server says why it is so.
fn transport(error: &Error) -> StoreError {
    use std::error::Error as _;
    match error.source() {
        Some(cause) if !cause.is::<DbError>() => StoreError::Unavailable(format!("{error}: {cause}")),
        _ => StoreError::Unavailable(error.to_string()),
    }
}

/// Why no connection could be had.
pub(super) fn unreachable(error: &PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => connecting(error),
        PoolError::Timeout(_) => none_free(),
        PoolError::Closed => StoreError::closed(),
        PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
            StoreError::unexpected("the pool of connections is not set up")
        }
    }
}

/// All connections were in use for too long.
pub(super) fn none_free() -> StoreError {
    StoreError::Unavailable("no connection became free in time".to_owned())
}

/// Why a connection could not be opened. Whatever it is, the database cannot be used now.
pub(super) fn connecting(error: &Error) -> StoreError {
    match error.as_db_error() {
        Some(failure) => StoreError::Unavailable(format!("{} ({})", failure.message(), failure.code().code())),
        None => transport(error),
    }
}
