//! The database as Postfix and Dovecot connect to it.

use std::path::PathBuf;

use mailapi_model::SecretText;

/// The location of the views for mail servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupDatabase {
    /// An SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL server.
    Postgres(PostgresPlace),
}

/// A database on a PostgreSQL server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresPlace {
    /// A host name, an address, or the directory of a socket.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The user.
    pub user: String,
    /// The password; `None` if the server requires none.
    pub password: Option<SecretText>,
    /// The database name.
    pub name: String,
}
