//! One domain with two mailboxes, on a Postfix and a Dovecot that look them up in mailapi's database.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mailapi_testkit::{
    Answer, Dovecot, MailServerPorts, Postfix, PostfixSettings, PostgresDatabase, PostgresServer, RealMailServer,
    SmtpSink,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::{Server, WorkDir};

const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// All running processes, and their settings.
pub(crate) struct ExternalHost {
    pub(crate) work_dir: WorkDir,
    pub(crate) postfix: Postfix,
    pub(crate) dovecot: Dovecot,
    pub(crate) sink: SmtpSink,
    /// Log that mailapi follows; empty for none.
    pub(crate) log: PathBuf,
    /// Address of the SMTP server for submission.
    pub(crate) submission: SocketAddr,
    server: Option<Server>,
    token: String,
    setting: Setting,
    /// Further settings, as environment variables.
    pub(crate) more: Vec<(&'static str, &'static str)>,
    client: reqwest::Client,
    /// Dropped last, because every other process uses it.
    _database: Option<PostgresDatabase>,
}

/// Client of the API of the current mailapi process.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    api: String,
    token: String,
}

impl Client {
    /// Returns the status and the body of the response; `None` without a response.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Option<(u16, Value)> {
        let request = self.http.post(format!("{}{path}", self.api)).header("X-MAILAPI-TOKEN", &self.token);
        let response = request.json(body).send().await.ok()?;
        Some((response.status().as_u16(), response.json().await.ok()?))
    }
}

/// Database engine of the accounts.
#[derive(Clone, Copy)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
}

/// Settings of every command.
#[derive(Clone)]
struct Setting {
    ports: MailServerPorts,
    database_url: String,
}

impl ExternalHost {
    /// Starts a Postfix, a Dovecot and a mailapi, with the mailboxes ann and bob of example.org.
    pub(crate) async fn open(engine: Engine) -> Self {
        Self::open_with(engine, &[]).await
    }

    /// Like `open`, with further settings as environment variables.
    pub(crate) async fn open_with(engine: Engine, more: &[(&'static str, &'static str)]) -> Self {
        Self::open_on(engine, more, |_| {}).await
    }

    /// Like `open_with`, with other settings of Postfix.
    pub(crate) async fn open_on(
        engine: Engine,
        more: &[(&'static str, &'static str)],
        change: impl FnOnce(&mut PostfixSettings),
    ) -> Self {
        let work_dir = WorkDir::new();
        let (database, database_url) = database(engine, &work_dir);
        let setting = Setting { ports: MailServerPorts::free(), database_url };
        let kind = match engine {
            Engine::Sqlite => {
                set_sqlite_up(&work_dir, &setting);
                "sqlite"
            }
            Engine::Postgres => {
                fs::set_permissions(work_dir.path(), Permissions::from_mode(0o755)).unwrap();
                run(configured(&work_dir, &setting, &["migrate"]));
                "pgsql"
            }
        };

        // Uses the configuration that the binary prints, with the arguments that only the operator can give.
        for server in [&["dovecot", "--version", Dovecot::version()][..], &["postfix"]] {
            let directory = work_dir.path().join(server[0]);
            let written = ["--write", directory.to_str().unwrap()];
            run(configured(&work_dir, &setting, &[&["config"], server, &written].concat()));
        }
        let sink = SmtpSink::start().await;
        let servers = RealMailServer::start_printed(work_dir.path(), setting.ports, kind, sink.address(), change).await;
        let RealMailServer { postfix, dovecot, .. } = servers;
        let (log, submission) = (postfix.log(), postfix.api());
        let client = reqwest::Client::new();
        let mut host = Self {
            work_dir,
            postfix,
            dovecot,
            sink,
            log,
            submission,
            server: None,
            token: String::new(),
            setting,
            more: more.to_vec(),
            client,
            _database: database,
        };
        host.restart_mailapi();
        assert_eq!(host.post("/domains", json!({ "domain": "example.org" })).await.status, 201);
        for name in ["ann", "bob"] {
            let user = json!({ "email": format!("{name}@example.org"), "password": "correct horse battery" });
            assert_eq!(host.post("/users", user).await.status, 201);
        }
        host
    }

    /// Stops mailapi, if it runs, and starts it again.
    pub(crate) fn restart_mailapi(&mut self) {
        self.stop_mailapi();
        let command = self.command(&["serve", "--log-format", "json"]);
        let mut server = Server::start(command);
        server.drain();
        if server.first_start.is_some() {
            self.token = server.token();
        }
        self.server = Some(server);
    }

    /// Stops mailapi with SIGTERM, if it runs.
    pub(crate) fn stop_mailapi(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop("TERM");
        }
    }

    /// Runs the doctor. Returns its exit code and its output.
    pub(crate) fn doctor(&self) -> (Option<i32>, String) {
        // postconf(1) and postmap(1) read this variable.
        let output = self.command(&["doctor"]).env("MAIL_CONFIG", self.postfix.config_dir()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }

    /// Returns the command with all settings.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = configured(&self.work_dir, &self.setting, arguments);
        command
            .env("MAILAPI_MAIL__EXTERNAL__SMTP__PORT", self.submission.port().to_string())
            .env(
                "MAILAPI_MAIL__EXTERNAL__LOG__POSTQUEUE",
                format!("postqueue,-c,{},-j", self.postfix.config_dir().display()),
            )
            .env("MAILAPI_MAIL__EXTERNAL__LOG__PATH", &self.log)
            .env("MAILAPI_ADVANCED__HTTP__HEALTH_CACHE", "0s")
            .env("MAILAPI_ADVANCED__SENDING__RECOVERY_INTERVAL", "1s")
            .env("MAILAPI_ADVANCED__EXTERNAL_LOG__SETTLE_TIME", "1s")
            .env("MAILAPI_ADVANCED__EXTERNAL_LOG__RECEPTION_TIME", "5s")
            .envs(self.more.iter().copied());
        command
    }

    /// Follows this log as a host of this name, with its own data directory.
    pub(crate) fn follow(&self, host: &str, log: &Path) -> Child {
        let mut command = self.command(&["follow", "--log-format", "json"]);
        command
            .env("MAILAPI_DATA_DIR", self.work_dir.path().join(host))
            .env("MAILAPI_MAIL__EXTERNAL__LOG__PATH", log)
            .env("MAILAPI_MAIL__EXTERNAL__LOG__HOST", host)
            .stdout(Stdio::null());
        command.spawn().unwrap()
    }

    /// Returns the address of the API and an admin's token.
    pub(crate) fn api(&self) -> (String, &str) {
        (self.url(""), &self.token)
    }

    /// Kills mailapi like a power failure, and starts it again.
    pub(crate) fn kill_mailapi(&mut self) {
        self.server.take().unwrap().kill();
        self.restart_mailapi();
    }

    /// Kills mailapi permanently; another node, with its own data directory, replaces it.
    pub(crate) fn replace_mailapi(&mut self) {
        self.server.take().unwrap().kill();
        let mut command = self.command(&["serve", "--log-format", "json"]);
        command.env("MAILAPI_DATA_DIR", self.work_dir.path().join("another-node"));
        let mut server = Server::start(command);
        server.drain();
        self.server = Some(server);
    }

    /// Sends a message from ann; returns its identifier.
    pub(crate) async fn send(&self, to: &[&str]) -> String {
        let answer = self.try_send(to).await.expect(202);
        answer["message_id"].as_str().unwrap().to_owned()
    }

    /// Retries until the message is accepted; returns its identifier.
    pub(crate) async fn send_when_it_works(&self, to: &[&str], patience: Duration) -> String {
        let end = Instant::now() + patience;
        loop {
            let answer = self.try_send(to).await;
            if answer.status == 202 {
                return answer.json()["message_id"].as_str().unwrap().to_owned();
            }
            assert!(Instant::now() < end, "{}", answer.text());
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Returns a client for requests while the servers restart.
    pub(crate) fn client(&self) -> Client {
        Client { http: self.client.clone(), api: self.url(""), token: self.token.clone() }
    }

    /// Tries to send a message from ann; returns the response.
    pub(crate) async fn try_send(&self, to: &[&str]) -> Answer {
        let message =
            json!({ "from": "ann@example.org", "to": to, "subject": "Hello", "body": { "text": "It works." } });
        self.post("/mail/send", message).await
    }

    /// Waits until a message has this status, and returns the whole status.
    pub(crate) async fn watch(&self, id: &str, status: &str, patience: Duration) -> Value {
        let end = Instant::now() + patience;
        loop {
            let seen = self.get(&format!("/mail/{id}/status")).await.expect(200);
            if seen["status"] == status {
                return seen;
            }
            let log = || fs::read_to_string(&self.log).unwrap_or_default();
            assert!(Instant::now() < end, "not {status}: {seen}\n{}\n{}", log(), self.dovecot.log());
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Waits until the condition holds.
    pub(crate) async fn until(&self, patience: Duration, is_so: impl AsyncFn() -> bool) {
        let end = Instant::now() + patience;
        while !is_so().await {
            assert!(Instant::now() < end, "the condition does not hold in time");
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Returns all metrics as text; needs the setting `MEASURED`.
    pub(crate) async fn metrics(&self) -> String {
        self.server.as_ref().expect("mailapi runs").metrics().await
    }

    pub(crate) async fn health(&self) -> Value {
        self.client.get(self.health_address()).send().await.unwrap().json().await.unwrap()
    }

    pub(crate) fn health_address(&self) -> String {
        self.url("").replace("/api/v1", "/health")
    }

    /// Returns the process identifier of mailapi.
    pub(crate) fn mailapi(&self) -> u32 {
        self.server.as_ref().unwrap().id()
    }

    /// Returns the rounds that mailapi's loops have begun, if the log reports them.
    pub(crate) fn rounds(&self) -> BTreeMap<String, u64> {
        self.server.as_ref().unwrap().rounds()
    }

    /// Returns a response whose body is not read yet.
    pub(crate) async fn response(&self, path: &str) -> reqwest::Response {
        self.client.get(self.url(path)).header("X-MAILAPI-TOKEN", &self.token).send().await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.request("GET", path).await
    }

    pub(crate) async fn request(&self, method: &str, path: &str) -> Answer {
        let method = method.parse().unwrap();
        Answer::of(self.client.request(method, self.url(path)).header("X-MAILAPI-TOKEN", &self.token)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        Answer::of(self.client.post(self.url(path)).header("X-MAILAPI-TOKEN", &self.token).json(&body)).await
    }

    fn url(&self, path: &str) -> String {
        self.server.as_ref().unwrap().api(path)
    }
}

/// Creates an empty database.
fn database(engine: Engine, work_dir: &WorkDir) -> (Option<PostgresDatabase>, String) {
    match engine {
        Engine::Sqlite => (None, format!("sqlite:{}", work_dir.path().join("db/mailapi.db").display())),
        Engine::Postgres => {
            let database = PostgresServer::shared().empty_database();
            let url = database.url();
            (Some(database), url)
        }
    }
}

/// Runs the commands for SQLite from docs/operating.md, line by line, for these directories and the user of the
/// tests. The first line is left out: it adds mailapi's user to a group of the machine.
fn set_sqlite_up(work_dir: &WorkDir, setting: &Setting) {
    const PAGE: &str = include_str!("../../../../docs/operating.md");
    let (_, section) = PAGE.split_once("\n- **SQLite instead of PostgreSQL**").unwrap();
    let (script, _) = section.split_once("```sh\n").unwrap().1.split_once("```").unwrap();
    let lines: Vec<&str> = script.lines().collect();
    let [join, printed @ ..] = lines.as_slice() else { panic!("{script}") };
    assert!(join.starts_with("usermod "), "{script}");
    let mut script = printed.join("\n");
    for (theirs, ours) in [
        ("/var/lib/mailapi", work_dir.path().to_str().unwrap()),
        ("-o mailapi", "-o root"),
        ("\nmailapi migrate\n", "\n\"$MAILAPI\" migrate\n"),
    ] {
        assert!(script.contains(theirs), "{theirs}: {script}");
        script = script.replace(theirs, ours);
    }
    let migrate = configured(work_dir, setting, &["migrate"]);
    let mut shell = Command::new("sh");
    shell.args(["-ec", &script]).current_dir(work_dir.path()).env("MAILAPI", migrate.get_program());
    shell.envs(migrate.get_envs().filter_map(|(name, value)| Some((name, value?))));
    run(shell);
}

/// Returns the command with the settings of the test installation.
fn configured(work_dir: &WorkDir, setting: &Setting, arguments: &[&str]) -> Command {
    let mut command = work_dir.command(arguments);
    command
        .env("MAILAPI_DATABASE__URL", &setting.database_url)
        .env("MAILAPI_MAIL__BACKEND", "external")
        .env("MAILAPI_MAIL__EXTERNAL__IMAP__PORT", setting.ports.imap.port().to_string())
        .env("MAILAPI_MAIL__EXTERNAL__IMAP__MASTER_PASSWORD", RealMailServer::MASTER_PASSWORD)
        .env("MAILAPI_MAIL__EXTERNAL__DOVEADM__URL", format!("http://{}", setting.ports.doveadm))
        .env("MAILAPI_MAIL__EXTERNAL__DOVEADM__API_KEY", RealMailServer::API_KEY)
        .env("MAILAPI_MAIL__EXTERNAL__DOVEADM__FLUSH_AUTH_CACHE", Dovecot::flushes_auth_cache().to_string());
    command
}

fn run(mut command: Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
