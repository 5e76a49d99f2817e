//! The database of one test, on the engine that the tests run on.

use std::path::{Path, PathBuf};

use mailapi_model::Timestamp;
use mailapi_store::Store;
use mailapi_store::sqlite::{Sqlite, SqliteSettings};

use crate::{PostgresDatabase, PostgresServer};

/// A migrated database, which goes with this. It is in SQLite, or with `MAILAPI_TEST_ENGINE=postgres` in the
/// environment on a private PostgreSQL server: every test that stands on this runs on either.
pub struct TestDatabase {
    store: Store,
    file: Sqlite,
    directory: PathBuf,
    server: Option<PostgresDatabase>,
}

impl TestDatabase {
    /// A fresh one, whose files are in `directory`.
    ///
    /// # Panics
    /// When it cannot be made.
    pub async fn open(directory: &Path, now: Timestamp) -> Self {
        #[expect(clippy::disallowed_methods, reason = "on which engine tests run is no configuration of the product")]
        let engine = std::env::var("MAILAPI_TEST_ENGINE").unwrap_or_default();
        let file = open_file(directory);
        let (store, server) = match engine.as_str() {
            "" | "sqlite" => (Store::on_sqlite(file.clone()), None),
            "postgres" => {
                let database = PostgresServer::shared().database().await;
                (Store::on_postgres(database.open().await), Some(database))
            }
            other => panic!("MAILAPI_TEST_ENGINE is sqlite or postgres, not {other}"),
        };
        store.migrate(now).await.expect("tables");
        Self { store, file, directory: directory.to_owned(), server }
    }

    /// Accounts and sent mail.
    #[must_use]
    pub fn store(&self) -> Store {
        self.store.clone()
    }

    /// Where the mail is, and all the rest too unless it is on a server.
    #[must_use]
    pub fn file(&self) -> Sqlite {
        self.file.clone()
    }

    /// What another process on the same database has.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub async fn another_node(&self) -> Store {
        match &self.server {
            Some(database) => Store::on_postgres(database.open().await),
            None => Store::on_sqlite(open_file(&self.directory)),
        }
    }
}

fn open_file(directory: &Path) -> Sqlite {
    Sqlite::open(&directory.join("mailapi.db"), SqliteSettings::default()).expect("a database")
}
