//! An external user database: the mailboxes of an existing installation, and their passwords. It is only
//! read.
//!
//! The operator owns its tables. Two queries return the password of an address and the list of mailboxes;
//! they run unchanged on SQLite and PostgreSQL. Tokens, permissions and sent mail refer to accounts in this
//! server's own tables, so each external mailbox is copied there: see [`Copies`].

mod copies;
mod listing;
mod mailbox;
mod queries;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mailapi_model::{EmailAddress, SecretText, SharedSecret};

pub use copies::{Copied, Copies};
pub use listing::{DirectoryPage, DirectoryPlace};
pub use mailbox::{DirectoryMailbox, DirectoryQuota, RowFault, RowFaultKind};
pub use queries::{DirectoryQueries, DirectoryQueryError};

use crate::StoreError;
use crate::db::{Row, Stmt};
use crate::postgres::{ForeignPostgres, PostgresUrl};
use crate::sqlite::ForeignSqlite;
use mailbox::read_mailbox;
use queries::{AddressOrder, RowColumns};

/// An address that cannot exist (RFC 2606 section 2).
const IMPOSSIBLE_ADDRESS: &str = "health-check@mailapi.invalid";

/// An external user database; clones share its connections.
#[derive(Debug, Clone)]
pub struct Directory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: Engine,
    queries: DirectoryQueries,
    settings: DirectorySettings,
}

#[derive(Debug)]
enum Engine {
    Sqlite(ForeignSqlite),
    Postgres(ForeignPostgres),
}

/// Limits and time-outs for the external database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectorySettings {
    /// Maximum number of connections. Default 4.
    pub connections: usize,
    /// Time-out for opening a connection. Default 5 s.
    pub connect_timeout: Duration,
    /// Time-out for a query, and for waiting until a connection is free. Default 10 s.
    pub statement_timeout: Duration,
    /// The scheme of hashes without a scheme prefix, without braces. Default `CRYPT`.
    pub default_scheme: String,
    /// Mailboxes read per query. Default 1,000.
    pub page: usize,
    /// How long a missing mailbox is kept disabled before it is forgotten together with its tokens. Default 1
    /// day: rebuilding the table at night must not delete all tokens.
    pub forget_after: Duration,
}

impl Default for DirectorySettings {
    fn default() -> Self {
        Self {
            connections: 4,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            default_scheme: "CRYPT".to_owned(),
            page: 1000,
            forget_after: Duration::from_secs(24 * 60 * 60),
        }
    }
}

impl Directory {
    /// Returns a directory in a SQLite file.
    #[must_use]
    pub fn on_sqlite(file: &Path, queries: DirectoryQueries, settings: DirectorySettings) -> Self {
        let engine = Engine::Sqlite(ForeignSqlite::new(file, &settings));
        Self(Arc::new(Inner { engine, queries, settings }))
    }

    /// Returns a directory on a PostgreSQL server, without connecting.
    ///
    /// # Errors
    /// When the trusted authorities for the server's certificate cannot be loaded.
    pub fn on_postgres(
        url: PostgresUrl,
        queries: DirectoryQueries,
        settings: DirectorySettings,
    ) -> Result<Self, StoreError> {
        let engine = Engine::Postgres(ForeignPostgres::new(url, &settings)?);
        Ok(Self(Arc::new(Inner { engine, queries, settings })))
    }

    /// Returns the password of the database server, which is read again for each new connection.
    #[must_use]
    pub fn server_password(&self) -> Option<SharedSecret> {
        match &self.0.engine {
            Engine::Sqlite(_) => None,
            Engine::Postgres(server) => server.password(),
        }
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &DirectorySettings {
        &self.0.settings
    }

    /// Returns the stored password hash of an address; `None` if its owner may not log in.
    ///
    /// # Errors
    /// When the database cannot be read, or the query returns anything but one text.
    pub async fn password(&self, email: &EmailAddress) -> Result<Option<SecretText>, StoreError> {
        let mut rows = self.rows_of(email, self.0.queries.password().to_owned()).await?;
        if rows.len() > 1 {
            // Any of them could belong to another user.
            tracing::warn!(%email, rows = rows.len(), "the password query returned several rows; login refused");
            return Ok(None);
        }
        let hash = rows.pop().map(|mut row| row.text_or_null()).transpose()?.flatten();
        Ok(hash.map(|hash| self.with_scheme(hash)))
    }

    /// Returns the rows of an address.
    ///
    /// An internationalised domain may be stored as A-labels, the form that Postfix queries, or as U-labels.
    async fn rows_of(&self, email: &EmailAddress, query: String) -> Result<Vec<Row<'static>>, StoreError> {
        let rows = self.query(Stmt::new(query.clone()).bind(email.as_str())).await?;
        let international = email.international();
        if !rows.is_empty() || international == email.as_str() {
            return Ok(rows);
        }
        self.query(Stmt::new(query).bind(international.as_str())).await
    }

    fn with_scheme(&self, hash: String) -> SecretText {
        let scheme = &self.0.settings.default_scheme;
        SecretText::new(if hash.starts_with('{') { hash } else { format!("{{{scheme}}}{hash}") })
    }

    /// Returns the mailbox of an address. If the query cannot compute its name or quota, these are unknown.
    ///
    /// # Errors
    /// When the database cannot be read, or the query does not even return whether the mailbox is active.
    pub async fn mailbox(&self, email: &EmailAddress) -> Result<Option<DirectoryMailbox>, StoreError> {
        let failed = match self.mailbox_with(RowColumns::All, email).await {
            Err(error) if !error.is_unavailable() => error,
            done => return done,
        };
        // Neither may keep a user out, or a disabled one in.
        let found = self.mailbox_with(RowColumns::Identity, email).await?;
        tracing::warn!(%email, error = %failed, "the mailbox query cannot compute a name or a quota");
        Ok(found)
    }

    async fn mailbox_with(
        &self,
        columns: RowColumns,
        email: &EmailAddress,
    ) -> Result<Option<DirectoryMailbox>, StoreError> {
        let rows = self.rows_of(email, self.0.queries.one_mailbox(columns, self.order())).await?;
        let found = rows.into_iter().next().map(|row| read_mailbox(row, columns)).transpose()?;
        Ok(found.and_then(|row| row.mailbox))
    }

    /// Runs both queries for an address that cannot exist, to check that logins work.
    ///
    /// # Errors
    /// The errors of the queries.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let (password, order) = (self.0.queries.password(), self.order());
        for query in [password.to_owned(), self.0.queries.one_mailbox(RowColumns::All, order)] {
            self.query(Stmt::new(query).bind(IMPOSSIBLE_ADDRESS)).await?;
        }
        match &self.0.engine {
            // Any column of SQLite may hold texts.
            Engine::Sqlite(_) => Ok(()),
            // Without a row, nothing else shows that the column cannot be read.
            Engine::Postgres(engine) => engine.demand_text(password).await,
        }
    }

    fn order(&self) -> AddressOrder {
        match &self.0.engine {
            Engine::Sqlite(_) => AddressOrder::Column,
            Engine::Postgres(_) => AddressOrder::Text,
        }
    }

    async fn query(&self, statement: Stmt) -> Result<Vec<Row<'static>>, StoreError> {
        match &self.0.engine {
            Engine::Sqlite(engine) => engine.query(statement).await,
            Engine::Postgres(engine) => engine.query(statement).await,
        }
    }
}
