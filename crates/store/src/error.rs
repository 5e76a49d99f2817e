//! Errors of the store.

/// An error of the store, by what the caller can do about it.
///
/// No variant carries a bound value: messages name tables, columns and engine conditions only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The database is closed, locked for too long, unreachable, or had an I/O error.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// The disk has no room for the change. Deletions still work, and make room.
    #[error("the database is unavailable: the disk is full")]
    DiskFull,
    /// The database file was renamed, removed or replaced while it was open; the text names the file. Nothing is
    /// written to it: a restart would open another file.
    #[error(
        "{0} was renamed, removed or replaced while it was open; put it back, or stop mailapi, which then completes it"
    )]
    Moved(String),
    /// The change is committed and visible, but the disk failed afterwards. It may be lost on power failure,
    /// and all writes fail until the file is opened again.
    #[error("the change is committed but may not be durable: {0}")]
    DiskFailed(String),
    /// A row with the same key exists; the text names the constraint (`accounts.email`).
    #[error("the row already exists: {0}")]
    Conflict(String),
    /// A referenced row is missing, or a row to be deleted is still referenced.
    #[error("a referenced row is missing, or the row is still referenced")]
    Reference,
    /// A statement of a batch touched another number of rows than it demanded; the batch was rolled back.
    #[error("statement {statement} of the batch affected an unexpected number of rows: {touched}")]
    Guard {
        /// Position in the batch, from 0.
        statement: usize,
        /// Number of rows it touched.
        touched: u64,
    },
    /// The database was migrated by a newer version of this program.
    #[error("the database has version {found} of `{component}`, newer than the supported {known}; use a newer program")]
    NewerSchema {
        /// The name of the set of migrations.
        component: String,
        /// The version found in the database.
        found: u32,
        /// The newest version that this program supports.
        known: u32,
    },
    /// A job panicked; its changes were rolled back.
    #[error("a database job panicked and was rolled back")]
    Panicked,
    /// A row or a statement has an unexpected form: a bug, or a damaged file.
    #[error("unexpected database error: {0}")]
    Unexpected(String),
}

impl StoreError {
    /// Returns whether the database is unavailable for now; the caller can only wait and retry.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::DiskFull | Self::Moved(_) | Self::DiskFailed(_))
    }

    /// Returns whether a unique key is taken.
    #[must_use]
    pub const fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict(_))
    }

    /// Returns whether a guard of a batch failed.
    #[must_use]
    pub const fn is_guard_failed(&self) -> bool {
        matches!(self, Self::Guard { .. })
    }

    pub(crate) fn closed() -> Self {
        Self::Unavailable("it is closed".to_owned())
    }

    pub(crate) fn unexpected(what: impl Into<String>) -> Self {
        Self::Unexpected(what.into())
    }
}
