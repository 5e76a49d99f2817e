//! An external PostgreSQL database. It is only read, and the server enforces that.

use std::fmt;

use mailapi_model::SharedSecret;

use super::connections::{Connections, Target};
use super::failure::Failed;
use super::{PostgresUrl, tls};
use crate::StoreError;
use crate::db::postgres::{self as statements, Work};
use crate::db::{Row, Stmt};
use crate::directory::DirectorySettings;

/// Read-only connections.
pub(crate) struct ForeignPostgres {
    connections: Connections,
    password: Option<SharedSecret>,
    settings: DirectorySettings,
}

impl fmt::Debug for ForeignPostgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignPostgres").finish_non_exhaustive()
    }
}

impl ForeignPostgres {
    /// Creates the pool without connecting.
    pub(crate) fn new(url: PostgresUrl, settings: &DirectorySettings) -> Result<Self, StoreError> {
        let tls = tls::connector(&url.trust)?;
        let password = url.password();
        let mut config = url.config;
        let given = config.get_options().map(|options| format!("{options} ")).unwrap_or_default();
        let limit = settings.statement_timeout.as_millis();
        config.options(format!("{given}-c default_transaction_read_only=on -c statement_timeout={limit}"));
        if config.get_application_name().is_none() {
            config.application_name("mailapi");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(settings.connect_timeout);
        }
        let target = Target { config, password: password.clone() };
        let connections = Connections::new(target, tls, settings.connections, settings.statement_timeout)?;
        Ok(Self { connections, password, settings: settings.clone() })
    }

    /// Returns the password, which is read again for each new connection.
    pub(crate) fn password(&self) -> Option<SharedSecret> {
        self.password.clone()
    }

    /// Runs one query. A pooled connection that broke meanwhile is replaced once.
    pub(crate) async fn query(&self, statement: Stmt) -> Result<Vec<Row<'static>>, StoreError> {
        let work = Work::Read(vec![statement]);
        let failed = match self.once(&work).await {
            Err(failed) if failed.again => self.once(&work).await,
            done => done,
        };
        failed.map_err(|failed| failed.error)
    }

    /// Checks that the first column of a query is text.
    pub(crate) async fn demand_text(&self, sql: &str) -> Result<(), StoreError> {
        let (pooled, _permit) = self.connections.get().await?;
        let client = pooled.client().ok_or_else(StoreError::closed)?;
        let checked = statements::demand_text(client, sql).await;
        if checked.as_ref().err().is_none_or(|failed| !failed.broken) {
            pooled.give_back();
        }
        checked.map_err(|failed| failed.error)
    }

    async fn once(&self, work: &Work) -> Result<Vec<Row<'static>>, Failed> {
        let (pooled, _permit) = self.connections.get().await.map_err(Failed::refused)?;
        let Some(client) = pooled.client() else { return Err(Failed::refused(StoreError::closed())) };
        // The server ends a statement after half of this time; only an unreachable server takes longer.
        let patience = self.settings.statement_timeout * 2;
        let outcome = tokio::time::timeout(patience, statements::run(client, work)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(Failed::timed_out()));
        if outcome.as_ref().err().is_none_or(|failed| !failed.broken) {
            pooled.give_back();
        }
        Ok(outcome?.into_iter().flat_map(|effect| effect.rows).collect())
    }
}
