//! The database of one test, on the engine that the tests run on.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mailapi_model::Timestamp;
use mailapi_store::Store;
use mailapi_store::sqlite::{Sqlite, SqliteSettings};

use crate::{PostgresDatabase, PostgresServer};

/// Where accounts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestEngine {
    /// In a file.
    Sqlite,
    /// On a private PostgreSQL server.
    Postgres,
}

impl TestEngine {
    /// The engine that `MAILAPI_TEST_ENGINE` names in the environment; SQLite unless it says `postgres`.
    ///
    /// # Panics
    /// When it names another.
    #[must_use]
    pub fn of_environment() -> Self {
        #[expect(clippy::disallowed_methods, reason = "on which engine tests run is no configuration of the product")]
        let engine = std::env::var("MAILAPI_TEST_ENGINE").unwrap_or_default();
        match engine.as_str() {
            "" | "sqlite" => Self::Sqlite,
            "postgres" => Self::Postgres,
            other => panic!("MAILAPI_TEST_ENGINE is sqlite or postgres, not {other}"),
        }
    }
}

/// A migrated database, which goes with this. It is in SQLite, or with `MAILAPI_TEST_ENGINE=postgres` in the
/// environment on a private PostgreSQL server: every test that stands on this runs on either.
pub struct TestDatabase {
    store: Store,
    file: Sqlite,
    directory: PathBuf,
    server: Option<PostgresDatabase>,
}

impl TestDatabase {
    /// A fresh one on the engine of the environment, whose files are in `directory`.
    ///
    /// # Panics
    /// When it cannot be made.
    pub async fn open(directory: &Path, now: Timestamp) -> Self {
        Self::open_on(TestEngine::of_environment(), directory, now).await
    }

    /// A fresh one on this engine.
    ///
    /// # Panics
    /// When it cannot be made.
    pub async fn open_on(engine: TestEngine, directory: &Path, now: Timestamp) -> Self {
        let file = open_file(directory);
        let (store, server) = match engine {
            TestEngine::Sqlite => (Store::on_sqlite(file.clone()), None),
            TestEngine::Postgres => {
                let database = PostgresServer::shared().database().await;
                (Store::on_postgres(database.open().await), Some(database))
            }
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
        self.another().await.0
    }

    /// The database of another process, and its handle on the file that holds the mail.
    ///
    /// # Panics
    /// When they cannot be opened.
    pub async fn another(&self) -> (Store, Sqlite) {
        let file = open_file(&self.directory);
        match &self.server {
            Some(database) => (Store::on_postgres(database.open().await), file),
            None => (Store::on_sqlite(file.clone()), file),
        }
    }

    /// Whether the accounts are in the file that holds the mail.
    #[must_use]
    pub const fn is_one_file(&self) -> bool {
        self.server.is_none()
    }

    /// Where a mail server finds the accounts.
    #[cfg(feature = "mail-server")]
    #[must_use]
    pub fn lookup(&self) -> mailapi_backend_external::printed::LookupDatabase {
        use mailapi_backend_external::printed::LookupDatabase;

        match &self.server {
            Some(database) => LookupDatabase::Postgres(database.place()),
            None => LookupDatabase::Sqlite(self.directory.join(FILE)),
        }
    }
}

const FILE: &str = "mailapi.db";

/// Mail servers look into the file under users of their own, and keep SQLite's shared memory beside it.
fn open_file(directory: &Path) -> Sqlite {
    let path = directory.join(FILE);
    fs::set_permissions(directory, Permissions::from_mode(0o777)).expect("a directory of ours");
    if !path.exists() {
        fs::write(&path, "").expect("an empty file");
        fs::set_permissions(&path, Permissions::from_mode(0o666)).expect("a file of ours");
    }
    Sqlite::open(&path, SqliteSettings::default()).expect("a database")
}
