//! The database as Postfix and Dovecot reach it.

use std::path::PathBuf;

use mailapi_model::SecretText;

/// Where the views for mail servers are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupDatabase {
    /// In this file.
    Sqlite(PathBuf),
    /// On a PostgreSQL server.
    Postgres(PostgresPlace),
}

/// A database on a PostgreSQL server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresPlace {
    /// A name, an address, or the directory of a socket.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Who logs in.
    pub user: String,
    /// With this password; none where the server asks for none.
    pub password: Option<SecretText>,
    /// The database's name.
    pub name: String,
}
