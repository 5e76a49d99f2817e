//! The user database of an existing installation.

use std::path::{Path, PathBuf};

use mailapi_store::sqlite::{Sqlite, SqliteSettings};
use mailapi_store::{Directory, DirectoryQueries, DirectorySettings, StoreError};
use tempfile::TempDir;

use crate::{PostgresDatabase, PostgresServer};

/// A schema with its queries: postfixadmin's, and a shorter one from common guides to Postfix and Dovecot.
pub struct ForeignSchema {
    /// Creates the tables.
    pub tables: &'static str,
    /// The query for a password.
    pub password: &'static str,
    /// The query for the mailboxes.
    pub mailboxes: &'static str,
}

impl ForeignSchema {
    /// postfixadmin's `mailbox`.
    pub const POSTFIXADMIN: Self = Self {
        tables: "CREATE TABLE mailbox (username VARCHAR(255) NOT NULL PRIMARY KEY, password VARCHAR(255) NOT NULL, \
                 name VARCHAR(255) NOT NULL DEFAULT '', maildir VARCHAR(255) NOT NULL DEFAULT '', \
                 quota BIGINT NOT NULL DEFAULT 0, domain VARCHAR(255), active BOOLEAN NOT NULL DEFAULT TRUE)",
        password: "SELECT password FROM mailbox WHERE username = $1 AND active",
        mailboxes: "SELECT username AS email, name, active, quota AS quota_bytes FROM mailbox",
    };

    /// `virtual_users` with an address and a password.
    pub const VIRTUAL_USERS: Self = Self {
        tables: "CREATE TABLE virtual_users (id INTEGER NOT NULL PRIMARY KEY, email VARCHAR(120) NOT NULL UNIQUE, \
                 password VARCHAR(106) NOT NULL)",
        password: "SELECT password FROM virtual_users WHERE email = $1;",
        mailboxes: "SELECT email, '' AS name, TRUE AS active, NULL AS quota_bytes FROM virtual_users",
    };

    /// `Hello world!` as hashed by `crypt(3)`.
    pub const HELLO_WORLD: &'static str =
        "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1";
}

/// An external user database.
pub struct ForeignUsers {
    home: Home,
}

enum Home {
    File { file: PathBuf, _directory: TempDir },
    Server(PostgresDatabase),
}

impl ForeignUsers {
    /// Creates a SQLite file with these tables.
    ///
    /// # Panics
    /// When it cannot be created.
    pub async fn on_sqlite(schema: &ForeignSchema) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let file = directory.path().join("users.db");
        let users = Self { home: Home::File { file, _directory: directory } };
        users.sql(schema.tables).await;
        users
    }

    /// Creates a PostgreSQL database with these tables.
    ///
    /// # Panics
    /// When it cannot be created.
    pub async fn on_postgres(schema: &ForeignSchema) -> Self {
        let users = Self { home: Home::Server(PostgresServer::shared().empty_database()) };
        users.sql(schema.tables).await;
        users
    }

    /// Creates a database on each engine.
    pub async fn on_each_engine(schema: &ForeignSchema) -> [Self; 2] {
        [Self::on_sqlite(schema).await, Self::on_postgres(schema).await]
    }

    /// Returns its URL for the configuration.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.home {
            Home::File { file, .. } => format!("sqlite:{}", file.display()),
            Home::Server(database) => database.url(),
        }
    }

    /// Changes it, as its owner's programs do.
    ///
    /// # Panics
    /// When a statement fails.
    pub async fn sql(&self, sql: &str) {
        match &self.home {
            Home::File { file, .. } => change(file, sql.to_owned()).await,
            Home::Server(database) => drop(database.sql(sql)),
        }
    }

    /// Opens it with these queries.
    ///
    /// # Panics
    /// When the queries are invalid.
    #[must_use]
    pub fn directory(&self, password: &str, mailboxes: &str, settings: DirectorySettings) -> Directory {
        let queries = DirectoryQueries::new(password, mailboxes).expect("two queries");
        match &self.home {
            Home::File { file, .. } => Directory::on_sqlite(file, queries, settings),
            Home::Server(database) => {
                let url = database.url().parse().expect("an address");
                Directory::on_postgres(url, queries, settings).expect("an engine")
            }
        }
    }
}

async fn change(file: &Path, sql: String) {
    let engine = Sqlite::open(file, SqliteSettings::default()).expect("a database file");
    engine
        .write(move |connection| connection.execute_batch(&sql).map_err(StoreError::from))
        .await
        .expect("the SQL works");
    engine.close().await;
}
