//! Schema migrations.

use mailapi_model::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::Sqlite;
use crate::StoreError;
use crate::migration::{Migration, RECORD, refuse_newer};

impl Sqlite {
    /// Applies the migrations of `component`; returns how many were applied. Several processes may call this
    /// at once: each migration checks its own record inside its transaction.
    ///
    /// # Errors
    /// [`StoreError::NewerSchema`] when the database is newer than `migrations`; nothing is changed then.
    /// [`StoreError::Unexpected`] when a statement fails.
    pub async fn migrate(
        &self,
        component: &str,
        migrations: &'static [Migration],
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let mut applied = 0;
        let name = component.to_owned();
        self.write(move |connection| {
            connection.execute_batch(RECORD)?;
            refuse_newer(&name, found(connection, &name)?, migrations)
        })
        .await?;
        // One transaction each, so that a failure keeps the earlier ones.
        for migration in migrations {
            let name = component.to_owned();
            applied += usize::from(self.write(move |connection| apply(connection, &name, migration, now)).await?);
        }
        Ok(applied)
    }
}

pub(super) fn found(connection: &Connection, component: &str) -> Result<Option<u32>, StoreError> {
    let sql = "SELECT MAX(version) FROM schema_migrations WHERE component = $1";
    Ok(connection.query_row(sql, params![component], |row| row.get(0))?)
}

/// Applies one migration; returns whether it was still missing.
fn apply(connection: &Connection, component: &str, migration: &Migration, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM schema_migrations WHERE component = $1 AND version = $2";
    let done = connection.query_row(sql, params![component, migration.version], |_| Ok(())).optional()?.is_some();
    if done {
        return Ok(false);
    }
    connection.execute_batch(migration.sql)?;
    let sql = "INSERT INTO schema_migrations (component, version, applied_at) VALUES ($1, $2, $3)";
    connection.execute(sql, params![component, migration.version, now.as_millis()])?;
    Ok(true)
}
