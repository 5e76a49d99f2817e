//! The database of one test, on the selected engine.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mailapi_model::Timestamp;
use mailapi_store::Store;
use mailapi_store::sqlite::{Migration, Sqlite, SqliteSettings};

use crate::{PostgresDatabase, PostgresServer};

/// The database engine for accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestEngine {
    /// A SQLite file.
    Sqlite,
    /// A private PostgreSQL server.
    Postgres,
}

impl TestEngine {
    /// Returns the engine selected by `MAILAPI_TEST_ENGINE`: `sqlite` (the default) or `postgres`.
    ///
    /// # Panics
    /// When the variable has another value.
    #[must_use]
    pub fn of_environment() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the engine of the tests is not a setting of the server")]
        let engine = std::env::var("MAILAPI_TEST_ENGINE").unwrap_or_default();
        match engine.as_str() {
            "" | "sqlite" => Self::Sqlite,
            "postgres" => Self::Postgres,
            other => panic!("MAILAPI_TEST_ENGINE must be sqlite or postgres, not {other}"),
        }
    }
}

/// The migrations of the store, of which each engine has a folder.
const MIGRATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/migrations");

/// A database of an older version.
#[derive(Debug, Clone)]
pub struct OlderDatabase {
    /// Its latest migration of the store.
    pub version: u32,
    /// Statements that add its rows.
    pub rows: String,
}

/// A migrated database, deleted when this is dropped. Tests that use it run on SQLite, or on a private
/// PostgreSQL server with `MAILAPI_TEST_ENGINE=postgres`.
pub struct TestDatabase {
    store: Store,
    file: Sqlite,
    directory: PathBuf,
    server: Option<PostgresDatabase>,
}

impl TestDatabase {
    /// Creates a database on the selected engine, with its files in `directory`.
    ///
    /// # Panics
    /// When it cannot be created.
    pub async fn open(directory: &Path, now: Timestamp) -> Self {
        Self::open_on(TestEngine::of_environment(), directory, now).await
    }

    /// Creates a database on this engine.
    ///
    /// # Panics
    /// When it cannot be created.
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

    /// Creates a database of an older version on this engine, and upgrades it.
    ///
    /// # Panics
    /// When it cannot be created or upgraded.
    pub async fn upgraded(engine: TestEngine, directory: &Path, older: OlderDatabase, now: Timestamp) -> Self {
        let migrations = migrations_until(engine, older.version);
        let rows: &'static [Migration] = vec![Migration { version: 1, sql: older.rows.leak() }].leak();
        let file = open_file(directory);
        let (store, server) = match engine {
            TestEngine::Sqlite => {
                for (component, migrations) in [("store", migrations), ("rows", rows)] {
                    file.migrate(component, migrations, now).await.expect("an older database");
                }
                (Store::on_sqlite(file.clone()), None)
            }
            TestEngine::Postgres => {
                let database = PostgresServer::shared().empty_database();
                let node = database.open().await;
                for (component, migrations) in [("store", migrations), ("rows", rows)] {
                    node.migrate(component, migrations, now).await.expect("an older database");
                }
                (Store::on_postgres(node), Some(database))
            }
        };
        assert!(store.migrate(now).await.expect("an upgrade") > 0, "the database was not older");
        Self { store, file, directory: directory.to_owned(), server }
    }

    /// Returns the PostgreSQL database, if the accounts are in one.
    #[must_use]
    pub const fn postgres(&self) -> Option<&PostgresDatabase> {
        self.server.as_ref()
    }

    /// Returns the store of accounts and sent mail.
    #[must_use]
    pub fn store(&self) -> Store {
        self.store.clone()
    }

    /// Returns the file with the mail; on SQLite it also has the accounts.
    #[must_use]
    pub fn file(&self) -> Sqlite {
        self.file.clone()
    }

    /// Opens the store as another process does.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub async fn another_node(&self) -> Store {
        self.another().await.0
    }

    /// Opens the store and the file with the mail as another process does.
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

    /// Returns whether accounts and mail share one file.
    #[must_use]
    pub const fn is_one_file(&self) -> bool {
        self.server.is_none()
    }

    /// Returns the database in which a mail server looks up the accounts.
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

/// Reads the migrations of the store up to a version.
fn migrations_until(engine: TestEngine, version: u32) -> &'static [Migration] {
    let folder = Path::new(MIGRATIONS).join(if engine == TestEngine::Sqlite { "sqlite" } else { "postgres" });
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("migrations").map(|file| file.expect("a file").path()).collect();
    files.sort();
    let numbered = files.into_iter().zip(1..=version);
    let read = |(file, version): (PathBuf, u32)| {
        let sql = fs::read_to_string(file).expect("a migration");
        Migration { version, sql: sql.leak() }
    };
    numbered.map(read).collect::<Vec<_>>().leak()
}

/// Opens the file so that mail servers can read it: they run as other users, and need SQLite's shared memory
/// beside it.
fn open_file(directory: &Path) -> Sqlite {
    let path = directory.join(FILE);
    fs::set_permissions(directory, Permissions::from_mode(0o777)).expect("permissions can be set");
    if !path.exists() {
        fs::write(&path, "").expect("an empty file");
        fs::set_permissions(&path, Permissions::from_mode(0o666)).expect("permissions can be set");
    }
    Sqlite::open(&path, SqliteSettings::default()).expect("a database")
}
