//! The accounts of a private Dovecot: tables in place of the views that Dovecot queries in mailapi's
//! database.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Mutex;

use rusqlite::Connection;

const TABLES: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = OFF;
    CREATE TABLE mailapi_virtual_mailboxes (email TEXT NOT NULL PRIMARY KEY, quota_bytes INTEGER,
        receives INTEGER NOT NULL DEFAULT TRUE);
    CREATE TABLE mailapi_credentials (email TEXT NOT NULL PRIMARY KEY, password_hash TEXT NOT NULL, active INTEGER NOT NULL);
    CREATE TABLE mailapi_app_passwords (email TEXT NOT NULL, lookup_key TEXT NOT NULL, password_hash TEXT NOT NULL);
";

/// The accounts. Changes apply from the next login.
pub(super) struct Accounts(Mutex<Connection>);

impl Accounts {
    /// Creates an empty database in a new directory.
    pub(super) fn new(file: &Path) -> Self {
        let directory = file.parent().expect("a directory");
        fs::create_dir(directory).expect("a directory for accounts");
        // Dovecot's users read the file, and need SQLite's shared memory beside it.
        fs::set_permissions(directory, Permissions::from_mode(0o777)).expect("permissions can be set");
        fs::write(file, "").expect("an empty file");
        fs::set_permissions(file, Permissions::from_mode(0o666)).expect("permissions can be set");
        let connection = Connection::open(file).expect("a database");
        connection.execute_batch(TABLES).expect("tables");
        Self(Mutex::new(connection))
    }

    /// Creates an account, or changes its quota.
    pub(super) fn put(&self, address: &str, password: &str, quota_bytes: Option<u64>) {
        self.run("INSERT OR REPLACE INTO mailapi_credentials VALUES (?1, '{PLAIN}' || ?2, TRUE)", (address, password));
        self.run(
            "INSERT OR REPLACE INTO mailapi_virtual_mailboxes (email, quota_bytes) VALUES (?1, ?2)",
            (address, quota_bytes),
        );
    }

    /// Removes an account, if it exists.
    pub(super) fn remove(&self, address: &str) {
        for table in ["mailapi_credentials", "mailapi_virtual_mailboxes"] {
            self.run(&format!("DELETE FROM {table} WHERE email = ?1"), (address,));
        }
    }

    fn run(&self, sql: &str, parameters: impl rusqlite::Params) {
        let connection = self.0.lock().expect("no thread panicked while holding the accounts");
        connection.execute(sql, parameters).expect("the accounts can be changed");
    }
}
