//! Why the store could not do what was asked.

/// What a caller of the store may want to know about a failure.
///
/// No variant carries a bound value: messages name tables, columns and engine conditions only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached or cannot write now: closed, locked for too long, disk full, I/O error.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// The change is committed and everybody sees it, but the disk failed behind it: nobody knows whether it outlives a
    /// loss of power, and nothing is written any more until the file is opened again.
    #[error("the change is committed, but the disk failed: {0}")]
    DiskFailed(String),
    /// A row with the same key is there already; the text names the constraint (`accounts.email`).
    #[error("the row exists already: {0}")]
    Conflict(String),
    /// A row that this one refers to is missing, or a row that others refer to was to go.
    #[error("a row that this change refers to is missing or still in use")]
    Reference,
    /// A statement of a batch changed another number of rows than it demanded; nothing of the batch was kept.
    #[error("statement {statement} of the batch touched {touched} rows")]
    Guard {
        /// Position in the batch, from 0.
        statement: usize,
        /// How many rows it did touch.
        touched: u64,
    },
    /// The database was migrated by a newer program than this one.
    #[error(
        "the database has version {found} of `{component}`, this program knows only up to {known}: use a newer program"
    )]
    NewerSchema {
        /// The set of migrations.
        component: String,
        /// What the database says.
        found: u32,
        /// The last version that this program knows.
        known: u32,
    },
    /// A job panicked; its changes were rolled back.
    #[error("a database job panicked and was rolled back")]
    Panicked,
    /// A row or a statement is not what this program expects: a bug, or a damaged file.
    #[error("the database gave something unexpected: {0}")]
    Unexpected(String),
}

impl StoreError {
    /// Whether the database cannot be reached or cannot write now, which others can do nothing about but wait.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::DiskFailed(_))
    }

    /// Whether a unique key is taken.
    #[must_use]
    pub const fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict(_))
    }

    /// Whether a guard of a batch did not hold.
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
