//! An external SQLite file. It is only read, and may lack everything that this server's own files have.

use std::path::Path;

use super::SqliteSettings;
use super::readers::{Owner, Readers};
use super::search::within_its_time;
use crate::StoreError;
use crate::db::{Row, Stmt, sqlite_queries};
use crate::directory::DirectorySettings;

/// Read-only connections to the file that exists at the time of a query: its owner may replace it.
#[derive(Debug)]
pub(crate) struct ForeignSqlite(Readers);

impl ForeignSqlite {
    /// Opens nothing yet. A missing file is not created.
    pub(crate) fn new(file: &Path, settings: &DirectorySettings) -> Self {
        let settings = SqliteSettings {
            search_connections: settings.connections,
            search_timeout: settings.statement_timeout,
            busy_timeout: settings.statement_timeout,
            ..SqliteSettings::default()
        };
        Self(Readers::new(file.to_owned(), settings, Owner::Other))
    }

    pub(crate) async fn query(&self, statement: Stmt) -> Result<Vec<Row<'static>>, StoreError> {
        let (pool, permit) = self.0.begin_search().await?;
        let answers: Vec<Vec<Row>> =
            within_its_time(pool, permit, move |connection| sqlite_queries(connection, &[statement])).await?;
        Ok(answers.into_iter().next().unwrap_or_default())
    }
}
