//! The product as in production: the release binary in its own directory, on free loopback ports.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use mailapi_testkit::send_signal;
use serde_json::Value;

use crate::outcome::{Failure, Outcome};
use crate::process::Process;

/// Maximum time of a start or a stop.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval of reading the log during a start, which limits the precision of its time.
const LOOK: Duration = Duration::from_millis(1);
/// A process is idle if it uses less than one in this many parts of a processor during [`QUIET_FOR`].
const QUIET_PART: u32 = 33;
const QUIET_FOR: Duration = Duration::from_millis(600);

/// Settings of the measured server that differ from a fresh installation.
const SETTINGS: &[(&str, &str)] = &[
    ("MAILAPI_HTTP__LISTEN", "127.0.0.1:0"),
    ("MAILAPI_MAIL__EMBEDDED__SMTP_LISTEN", "127.0.0.1:0"),
    ("MAILAPI_MAIL__EMBEDDED__SUBMISSION_LISTEN", "127.0.0.1:0"),
    ("MAILAPI_MAIL__EMBEDDED__IMAP_LISTEN", "127.0.0.1:0"),
    // Requests are counted as usual and never rejected.
    ("MAILAPI_LIMITS__REQUESTS_PER_MINUTE", "1000000000"),
    ("MAILAPI_LIMITS__REQUESTS_PER_HOUR", "1000000000"),
    ("MAILAPI_LIMITS__MESSAGES_PER_DAY", "1000000000"),
    ("MAILAPI_LIMITS__RECIPIENTS_PER_DAY", "1000000000"),
    // Failed logins are counted by client address, and the flood uses many.
    ("MAILAPI_TRUSTED_PROXIES", "127.0.0.1"),
];

/// Limits for an attachment of 50 MB, above the defaults.
const ROOM_FOR_BIG_MAIL: &[(&str, &str)] =
    &[("MAILAPI_LIMITS__MAX_MESSAGE_BYTES", "80MiB"), ("MAILAPI_HTTP__MAX_REQUEST_BYTES", "120MiB")];

/// The measured binary.
#[derive(Debug, Clone)]
pub(crate) struct Product {
    binary: PathBuf,
    /// Additional settings as `NAME=value` of the environment.
    tried: Vec<String>,
}

impl Product {
    /// Finds the named binary, by default the one beside this program, which is rebuilt first if cargo started this
    /// program. Its servers run with the settings in `tried`.
    pub(crate) fn find(named: Option<PathBuf>, tried: Vec<String>) -> Outcome<Self> {
        let binary = match named {
            // The server has another working directory.
            Some(binary) => std::path::absolute(binary)?,
            None => {
                build()?;
                std::env::current_exe()?.with_file_name("mailapi")
            }
        };
        if binary.is_file() {
            return Ok(Self { binary, tried });
        }
        Err(Failure::new(format!(
            "{} does not exist; build it, or name another binary with --product",
            binary.display()
        )))
    }

    /// Adds a setting.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut more = self.clone();
        more.tried.push(format!("{name}={value}"));
        more
    }

    pub(crate) fn binary(&self) -> &Path {
        &self.binary
    }

    /// Starts a server on a data directory, which is created if it is missing.
    pub(crate) async fn start(&self, directory: &Path) -> Outcome<Server> {
        self.start_with(directory, &[]).await
    }

    /// Starts a server with higher limits for the size of messages.
    pub(crate) async fn start_for_big_mail(&self, directory: &Path) -> Outcome<Server> {
        self.start_with(directory, ROOM_FOR_BIG_MAIL).await
    }

    async fn start_with(&self, directory: &Path, more: &[(&str, &str)]) -> Outcome<Server> {
        std::fs::create_dir_all(directory)?;
        let log = directory.join("log");
        let mut command = Command::new(&self.binary);
        // Settings in the environment of this program must not reach the measured server.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("MAILAPI_")) {
            command.env_remove(name);
        }
        command.args(["serve", "--log-format", "json"]).current_dir(directory).envs(more.iter().copied());
        command.envs(self.tried.iter().filter_map(|setting| setting.split_once('=')));
        command.envs(SETTINGS.iter().copied()).stdin(Stdio::null()).stdout(File::create(&log)?);
        let began = Instant::now();
        let mut server = Server::new(command.spawn()?, log);
        server.wait_until_ready(began).await?;
        let token = std::fs::read_to_string(directory.join("mailapi-data/admin-token"))?;
        token.trim().clone_into(&mut server.admin);
        Ok(server)
    }
}

/// Builds the product. `cargo run` builds only this package, so the binary may be missing or outdated.
fn build() -> Outcome {
    let Some(cargo) = std::env::var_os("CARGO") else { return Ok(()) };
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", "mailapi"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(Failure::new("the product cannot be built")) }
}

/// A running server; killed on drop.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
    /// The address of the API.
    pub(crate) http: SocketAddr,
    /// The address for mail from outside.
    pub(crate) smtp: Option<SocketAddr>,
    /// The address for submission by mail programs.
    pub(crate) submission: Option<SocketAddr>,
    /// The address for IMAP.
    pub(crate) imap: Option<SocketAddr>,
    /// The admin token.
    pub(crate) admin: String,
    /// Time from the start of the process until all listeners were ready.
    pub(crate) start_took: Duration,
}

impl Server {
    fn new(child: Child, log: PathBuf) -> Self {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let (smtp, submission, imap) = (None, None, None);
        Self { child, log, http: nowhere, smtp, submission, imap, admin: String::new(), start_took: Duration::ZERO }
    }

    pub(crate) fn process(&self) -> Process {
        Process::Other(self.child.id())
    }

    /// Waits until background work (index, statistics) is done: the process no longer uses the processor.
    pub(crate) async fn settle(&self) -> Outcome {
        let process = self.process();
        let give_up = Instant::now() + PATIENCE * 10;
        while Instant::now() < give_up {
            let before = process.cpu()?;
            tokio::time::sleep(QUIET_FOR).await;
            if process.cpu()? - before <= QUIET_FOR / QUIET_PART {
                return Ok(());
            }
        }
        Err(Failure::new("the server does not become idle"))
    }

    /// Stops the server; fails if it logged errors.
    pub(crate) async fn stop(mut self) -> Outcome {
        if !send_signal("TERM", &self.child) {
            return Err(Failure::new("the server has ended already"));
        }
        let status = self.wait().await?;
        let log = std::fs::read_to_string(&self.log)?;
        let complaints = log.lines().filter(|line| line.contains(r#""level":"ERROR""#));
        match complaints.clone().next() {
            None if status.success() => Ok(()),
            None => Err(Failure::new(format!("the server ended with {status}"))),
            Some(first) => {
                Err(Failure::new(format!("the server logged {} errors, the first: {first}", complaints.count())))
            }
        }
    }

    async fn wait(&mut self) -> Outcome<ExitStatus> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait()? {
                Some(status) => return Ok(status),
                None if Instant::now() > give_up => return Err(Failure::new("the server does not end")),
                None => tokio::time::sleep(LOOK).await,
            }
        }
    }

    async fn wait_until_ready(&mut self, began: Instant) -> Outcome {
        loop {
            // The last line may be incomplete.
            let log = std::fs::read_to_string(&self.log)?;
            let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let mut events = whole.lines().map(serde_json::from_str::<Value>);
            let running = events.find_map(|event| event.ok().filter(|it| it["message"] == "mailapi is running"));
            if let Some(running) = running {
                self.start_took = began.elapsed();
                return self.read_addresses(&running);
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(Failure::new(format!("the server ended before it was ready, with {status}: {log}")));
            }
            if began.elapsed() > PATIENCE {
                return Err(Failure::new("the server does not start"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn read_addresses(&mut self, running: &Value) -> Outcome {
        let api = running["api"].as_str().unwrap_or_default();
        let host = api.trim_start_matches("http://").split('/').next().unwrap_or_default();
        self.http = host.parse()?;
        let listener = |name: &str| running[name].as_str().map(str::parse).transpose();
        (self.smtp, self.submission, self.imap) = (listener("smtp")?, listener("submission")?, listener("imap")?);
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
