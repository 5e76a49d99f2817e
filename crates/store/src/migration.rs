//! Schema versions, for both engines.

use crate::StoreError;

/// One schema change of a component, from a file `NNNN_name.sql`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// Its version: 1, 2, 3 …
    pub version: u32,
    /// The statements, applied in one transaction; they must not begin or commit one.
    pub sql: &'static str,
}

/// The migrations of one component, oldest first.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// The key of their versions in a database.
    pub component: &'static str,
    /// All of them. A released migration never changes.
    pub migrations: &'static [Migration],
}

/// The table of applied migrations. `component` lets several crates keep their tables in one database.
pub(crate) const RECORD: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
    component TEXT NOT NULL,
    version INTEGER NOT NULL,
    applied_at BIGINT NOT NULL,
    PRIMARY KEY (component, version)
)";

/// Rejects a database that is newer than `migrations`.
pub(crate) fn refuse_newer(component: &str, found: Option<u32>, migrations: &[Migration]) -> Result<(), StoreError> {
    let known = migrations.last().map_or(0, |last| last.version);
    match found {
        Some(found) if found > known => Err(StoreError::NewerSchema { component: component.to_owned(), found, known }),
        _ => Ok(()),
    }
}
