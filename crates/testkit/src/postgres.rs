//! A private PostgreSQL server from the system's package, on a loopback port and on a socket in its own
//! directory.
//!
//! Tests of one process share a server, and each case has its own database, copied from a migrated one. The
//! server stops with the process, however that ends: a shell script waits for its standard input to close.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mailapi_model::Timestamp;
use mailapi_store::Store;
use mailapi_store::postgres::{Postgres, PostgresSettings};
use tokio::sync::OnceCell;

use crate::SeededEntropy;
use crate::ports::free_port;

const SCRIPT: &str = include_str!("postgres.sh");
const PASSWORD: &str = "pass/word: 100%";
const PASSWORD_IN_URL: &str = "pass%2Fword%3A%20100%25";
/// The template of the other databases.
const MIGRATED: &str = "migrated";

/// A private server, which stops when this is dropped.
pub struct PostgresServer {
    programs: PathBuf,
    directory: PathBuf,
    port: u16,
    keeper: Mutex<Keeper>,
    migrated: OnceCell<()>,
    made: AtomicU64,
    nodes: AtomicU64,
}

/// The script that starts, stops and removes the server.
struct Keeper {
    process: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl PostgresServer {
    /// Returns the server shared by all tests of this process, starting it on first use.
    ///
    /// # Panics
    /// When the package `postgresql` is not installed, or the server does not start.
    #[must_use]
    pub fn shared() -> Arc<Self> {
        // Shared because starting a server takes a second; each test uses its own database.
        static SHARED: std::sync::LazyLock<Arc<PostgresServer>> =
            std::sync::LazyLock::new(|| Arc::new(PostgresServer::start()));
        Arc::clone(&SHARED)
    }

    /// Starts a server for one test, which may stop it.
    ///
    /// # Panics
    /// When the package `postgresql` is not installed, or the server does not start.
    #[must_use]
    pub fn start() -> Self {
        const TRIES: u32 = 3;
        let programs = programs();
        let started = (0..TRIES).find_map(|_| {
            // Another program may take the port before the server starts.
            let port = free_port().port();
            let (keeper, directory) = Keeper::start(&programs, port)?;
            Some((keeper, directory, port))
        });
        let (keeper, directory, port) = started.expect("PostgreSQL starts; its output is above");
        Self {
            programs,
            directory,
            port,
            keeper: Mutex::new(keeper),
            migrated: OnceCell::new(),
            made: AtomicU64::new(0),
            nodes: AtomicU64::new(0),
        }
    }

    /// Stops the server, which ends all connections.
    pub fn stop(&self) {
        self.order("stop");
    }

    /// Starts the server again.
    pub fn start_again(&self) {
        self.order("start");
    }

    fn order(&self, order: &str) {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner).order(order);
    }

    /// Returns the server's certificate, for the name `localhost`.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.directory.join("server.pem")
    }

    /// Runs SQL with `psql`; returns its output, with columns separated by `|`.
    ///
    /// # Panics
    /// When a statement fails.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let output = Command::new(self.programs.join("psql"))
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "mailapi", "-d", database, "-c", sql, "-h"])
            .arg(&self.directory)
            .args(["-p", &self.port.to_string()])
            .stdin(Stdio::null())
            .output()
            .expect("psql runs");
        assert!(output.status.success(), "{sql}\n{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Creates a database with the tables of the store.
    ///
    /// # Panics
    /// When it cannot be created.
    pub async fn database(self: &Arc<Self>) -> PostgresDatabase {
        self.migrated
            .get_or_init(|| async {
                self.sql("postgres", &format!("CREATE DATABASE {MIGRATED}"));
                let template = PostgresDatabase { server: Arc::clone(self), name: MIGRATED.to_owned(), keep: true };
                let store = Store::on_postgres(template.open().await);
                store.migrate(Timestamp::from_seconds(0)).await.expect("tables");
                store.close().await;
                // The runtime of the first test may not have closed its connections yet, and a template must
                // have none.
                let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() \
                           AND pid <> pg_backend_pid()";
                template.sql(end);
            })
            .await;
        self.copy_of(MIGRATED)
    }

    /// Creates a database without tables.
    ///
    /// # Panics
    /// When it cannot be created.
    #[must_use]
    pub fn empty_database(self: &Arc<Self>) -> PostgresDatabase {
        self.copy_of("template1")
    }

    fn copy_of(self: &Arc<Self>, template: &str) -> PostgresDatabase {
        let name = format!("case_{}", self.made.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {template}"));
        PostgresDatabase { server: Arc::clone(self), name, keep: false }
    }
}

/// The database of one case, which is deleted when this is dropped.
pub struct PostgresDatabase {
    server: Arc<PostgresServer>,
    name: String,
    keep: bool,
}

impl PostgresDatabase {
    /// Returns its server.
    #[must_use]
    pub const fn server(&self) -> &Arc<PostgresServer> {
        &self.server
    }

    /// Returns its URL for TCP, including the password.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_with("localhost", PASSWORD_IN_URL, "")
    }

    /// Returns its URL with this host, percent-encoded password, and query.
    #[must_use]
    pub fn url_with(&self, host: &str, password: &str, query: &str) -> String {
        let (port, name) = (self.server.port, &self.name);
        format!("postgres://mailapi:{password}@{host}:{port}/{name}{query}")
    }

    /// Returns its location for a mail server's configuration.
    #[cfg(feature = "mail-server")]
    #[must_use]
    pub fn place(&self) -> mailapi_backend_external::printed::PostgresPlace {
        mailapi_backend_external::printed::PostgresPlace {
            host: std::net::Ipv4Addr::LOCALHOST.to_string(),
            port: self.server.port,
            user: "mailapi".to_owned(),
            password: Some(mailapi_model::Secret::new(PASSWORD.to_owned())),
            name: self.name.clone(),
        }
    }

    /// Returns the password in plain form.
    #[must_use]
    pub const fn password(&self) -> &'static str {
        PASSWORD
    }

    /// Opens a node with default settings.
    ///
    /// # Panics
    /// When it cannot connect.
    pub async fn open(&self) -> Postgres {
        self.open_with(PostgresSettings::default()).await
    }

    /// Opens a node.
    ///
    /// # Panics
    /// When it cannot connect.
    pub async fn open_with(&self, settings: PostgresSettings) -> Postgres {
        let url = self.url().parse().expect("an address");
        let entropy = SeededEntropy::new(self.server.nodes.fetch_add(1, Ordering::Relaxed));
        Postgres::open(url, settings, &entropy).await.expect("a connection")
    }

    /// Runs SQL with `psql`; returns its output, with columns separated by `|`.
    ///
    /// # Panics
    /// When a statement fails.
    pub fn sql(&self, sql: &str) -> String {
        self.server.sql(&self.name, sql)
    }

    /// Runs SQL in a `psql` that stays connected until its standard input ends.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn session(&self, sql: &str) -> Child {
        let mut session = Command::new(self.server.programs.join("psql"))
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", "mailapi", "-d", &self.name, "-h"])
            .arg(&self.server.directory)
            .args(["-p", &self.server.port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("psql runs");
        let input = session.stdin.as_mut().expect("a pipe");
        input.write_all(format!("{sql}\n").as_bytes()).expect("psql reads its input");
        session
    }
}

impl Drop for PostgresDatabase {
    fn drop(&mut self) {
        // A failed test may have stopped the server; the database is then removed together with the server.
        if !self.keep && !std::thread::panicking() {
            self.server.sql("postgres", &format!("DROP DATABASE {} WITH (FORCE)", self.name));
        }
    }
}

impl Keeper {
    /// Starts the server; returns `None` if it did not start.
    fn start(programs: &Path, port: u16) -> Option<(Self, PathBuf)> {
        let mut command = as_server_user();
        command.args(["sh", "-c", SCRIPT, "sh"]).arg(programs).arg(std::env::temp_dir());
        command.args([&port.to_string(), PASSWORD]).current_dir("/");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let (orders, answers) = (process.stdin.take(), process.stdout.take());
        let answers = BufReader::new(answers.expect("a pipe"));
        let mut keeper = Self { process, orders, answers };
        let directory = keeper.answer()?;
        Some((keeper, PathBuf::from(directory)))
    }

    fn answer(&mut self) -> Option<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).ok()?;
        line.strip_suffix('\n').map(str::to_owned)
    }

    fn order(&mut self, order: &str) {
        let orders = self.orders.as_mut().expect("the server is not dropped yet");
        writeln!(orders, "{order}").expect("the keeper process reads its input");
        self.answer().expect("the keeper process confirms the order");
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.orders.take());
        // The script cleans up by itself; a failure needs no reaction.
        let _ = self.process.wait();
    }
}

/// Returns the programs of the newest installed server.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin")).filter(|bin| bin.join("initdb").exists());
    let newest = found.max_by_key(|bin| version_of(bin));
    newest.expect("PostgreSQL is needed for tests and is not installed: apt-get install postgresql")
}

fn version_of(bin: &Path) -> u32 {
    let name = bin.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    name.and_then(|name| name.parse().ok()).unwrap_or(0)
}

/// Returns a command to run programs as the server's user. PostgreSQL refuses to run as root; its package
/// creates a user.
fn as_server_user() -> Command {
    const ROOT: u32 = 0;
    let user = fs::metadata("/proc/self").expect("this process").uid();
    if user == ROOT {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "postgres", "--regid", "postgres", "--init-groups"]);
        command
    } else {
        Command::new("env")
    }
}
