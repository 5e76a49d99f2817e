//! A private Postfix on loopback ports, with all its files in a temporary directory; both disappear when it
//! is dropped. It needs the package `postfix`, and root, as Postfix's master does.
//!
//! Mail for other domains is sent to one address, such as a [`crate::SmtpSink`]. No name is looked up, and
//! nothing leaves the machine.

mod layout;
mod queue;

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;

use crate::guard::Guard;
use crate::logger::Logger;
use crate::ports::free_port;
use crate::signal;
use layout::{id_of, own, set_mode};

/// Time-out for starting and stopping.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two checks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Settings of a private Postfix.
#[derive(Debug, Clone)]
pub struct PostfixSettings {
    /// The mailboxes that it delivers to.
    pub recipients: PostfixRecipients,
    /// How it delivers.
    pub delivery: PostfixDelivery,
    /// The server for mail to other domains.
    pub remote: SocketAddr,
    /// Pause between two attempts. Default: 2 seconds. With 1 second, whole-second timestamps let a queue
    /// scan meet a message that is just being deferred; the message then stays until a restart.
    pub backoff_seconds: u32,
    /// Time after which it bounces a message. Default: 1 day.
    pub queue_lifetime_seconds: u32,
    /// Whether queue ids are unique over time. Default: true.
    pub long_queue_ids: bool,
    /// A certificate and its key, both PEM files, to offer STARTTLS. Default: none.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Whether a separate logger writes the log, as syslog does. Otherwise Postfix writes it, and a kill
    /// loses the last lines. Default: no.
    pub separate_logger: bool,
    /// Further parameters of main.cf, name and value. Default: none.
    pub parameters: Vec<(String, String)>,
}

/// The mailboxes that Postfix delivers to.
#[derive(Debug, Clone)]
pub enum PostfixRecipients {
    /// A fixed list.
    Fixed {
        /// The domains.
        domains: Vec<String>,
        /// The mailboxes, as addresses.
        mailboxes: Vec<String>,
        /// Aliases and their targets.
        aliases: Vec<(String, String)>,
    },
    /// Lookup tables such as `sqlite:/path/to/mailboxes.cf`.
    Tables {
        /// Domain names.
        domains: String,
        /// Mailboxes by address.
        mailboxes: String,
        /// Aliases by address.
        aliases: String,
    },
}

/// How mail is delivered.
#[derive(Debug, Clone)]
pub enum PostfixDelivery {
    /// Into maildirs of its own; [`Postfix::delivered`] reads them.
    Maildirs,
    /// Over LMTP to this socket.
    Lmtp(PathBuf),
}

impl PostfixSettings {
    /// Returns settings for two domains, `example.org` and `example.com`, with these mailboxes; other mail is
    /// sent to `remote`.
    #[must_use]
    pub fn new(mailboxes: &[&str], remote: SocketAddr) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        Self {
            recipients: PostfixRecipients::Fixed {
                domains: owned(&["example.org", "example.com"]),
                mailboxes: owned(mailboxes),
                aliases: Vec::new(),
            },
            delivery: PostfixDelivery::Maildirs,
            remote,
            backoff_seconds: 2,
            queue_lifetime_seconds: 24 * 3600,
            long_queue_ids: true,
            tls: None,
            separate_logger: false,
            parameters: Vec::new(),
        }
    }
}

/// A running Postfix.
pub struct Postfix {
    dir: TempDir,
    master: Option<(Child, Guard)>,
    /// The process group that [`Postfix::kill`] killed.
    killed: Option<u32>,
    program: PathBuf,
    smtp: SocketAddr,
    api: SocketAddr,
    /// Outlives the daemons; `None` if a daemon writes the log.
    logger: Option<Logger>,
}

impl Postfix {
    /// Starts a Postfix and waits until it accepts mail.
    ///
    /// # Panics
    /// When Postfix is not installed, the user is not root, or it does not start; the message names the reason.
    pub async fn start(settings: &PostfixSettings) -> Self {
        let program = PathBuf::from(default_of("daemon_directory")).join("master");
        assert!(program.exists(), "the Postfix installation is incomplete: {} is missing", program.display());
        let dir = tempfile::Builder::new().prefix("postfix-").tempdir().expect("a temporary directory");
        let (smtp, api) = (free_port(), free_port());
        let mut postfix = Self { dir, master: None, killed: None, program, smtp, api, logger: None };
        postfix.lay_out(settings);
        if settings.separate_logger {
            postfix.listen_for_lines();
        }
        postfix.run().await;
        postfix
    }

    /// Returns the listener for mail from other servers, without relaying. It logs as `postfix/smtpd`.
    #[must_use]
    pub const fn smtp(&self) -> SocketAddr {
        self.smtp
    }

    /// Returns the listener that relays mail from this machine. It logs as `postfix/api/smtpd`.
    #[must_use]
    pub const fn api(&self) -> SocketAddr {
        self.api
    }

    /// Returns the path of its log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.path("log/mail.log")
    }

    /// Returns the id of its main process; `None` if it is not running.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.master.as_ref().map(|(master, _)| master.id())
    }

    /// Returns the directory of its main.cf.
    #[must_use]
    pub fn config_dir(&self) -> PathBuf {
        self.path("etc")
    }

    /// Returns the messages in a mailbox, if it delivers into maildirs.
    ///
    /// # Panics
    /// When a message cannot be read.
    #[must_use]
    pub fn delivered(&self, mailbox: &str) -> Vec<Vec<u8>> {
        let Ok(entries) = fs::read_dir(self.path("mail").join(maildir(mailbox)).join("new")) else { return Vec::new() };
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a directory entry").path()).collect();
        paths.sort();
        paths.iter().map(|path| fs::read(path).expect("a message")).collect()
    }

    /// Waits until the log has a line with all of these texts; returns the line.
    ///
    /// # Panics
    /// When there is no such line in time.
    pub async fn logged(&self, texts: &[&str]) -> String {
        self.wait_for(&format!("a line with {texts:?}"), || {
            let log = fs::read_to_string(self.log()).unwrap_or_default();
            log.lines().find(|line| texts.iter().all(|text| line.contains(text))).map(str::to_owned)
        })
        .await
    }

    /// Makes it reopen its log after the file was renamed.
    ///
    /// # Panics
    /// When it is not running.
    pub fn reopen_log(&self) {
        self.signal("HUP");
    }

    /// Kills it.
    ///
    /// # Panics
    /// When it is not running.
    pub fn kill(&mut self) {
        self.signal("KILL");
        let (mut master, _guard) = self.master.take().expect("a running Postfix");
        master.wait().expect("the end of the master");
        self.killed = Some(master.id());
    }

    /// Starts it again on the same ports after [`Postfix::kill`].
    ///
    /// # Panics
    /// When it does not start.
    pub async fn restart(&mut self) {
        self.run().await;
    }

    fn listen_for_lines(&mut self) {
        let socket = self.path("queue/public/postlog");
        self.logger = Some(Logger::start(&socket, &self.log()));
        own(&socket, id_of("-u", "postfix"), 0);
        set_mode(&socket, 0o666);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    async fn run(&mut self) {
        // A queue manager skips a message that an agent of the former one has locked, until new mail comes.
        if let Some(killed) = self.killed.take() {
            self.wait_for("the end of killed processes", || (!signal::runs_in_group(killed)).then_some(())).await;
        }
        let output = File::create(self.path("log/start.log")).expect("a file for its output");
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(self.config_dir()).arg("-d").current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(output.try_clone().expect("a second handle")).stderr(output);
        // A process group of its own, so that signals reach all its processes and no others.
        command.process_group(0);
        let master = command.spawn().expect("Postfix's master starts");
        let guard = Guard::over(-i64::from(master.id()), self.dir.path());
        self.master = Some((master, guard));
        for port in [self.smtp, self.api] {
            self.wait_for_greeting(port).await;
        }
    }

    async fn wait_for_greeting(&self, address: SocketAddr) {
        let greeting = async {
            loop {
                if let Ok(stream) = TcpStream::connect(address).await {
                    let mut line = String::new();
                    if BufReader::new(stream).read_line(&mut line).await.is_ok_and(|_| line.starts_with("220")) {
                        return;
                    }
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        if tokio::time::timeout(PATIENCE, greeting).await.is_err() {
            panic!("Postfix does not answer at {address}; it logged:\n{}", self.said());
        }
    }

    async fn wait_for<T>(&self, what: &str, look: impl Fn() -> Option<T>) -> T {
        let found = async {
            loop {
                if let Some(found) = look() {
                    return found;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        match tokio::time::timeout(PATIENCE, found).await {
            Ok(found) => found,
            Err(_) => panic!("timed out waiting for {what}; Postfix logged:\n{}", self.said()),
        }
    }

    fn said(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.path(name)).unwrap_or_default();
        read("log/start.log") + &read("log/mail.log")
    }

    fn signal(&self, name: &str) {
        let (master, _) = self.master.as_ref().expect("a running Postfix");
        // The master forwards signals to its daemons, except SIGKILL, which it cannot catch.
        let sent = match name {
            "KILL" => signal::send_to_group(name, master),
            _ => signal::send_signal(name, master),
        };
        assert!(sent, "Postfix has ended already");
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        let Some((mut master, _guard)) = self.master.take() else { return };
        // Processes that have already ended receive no signal.
        signal::send_to_group("TERM", &master);
        let _ = master.wait();
        signal::send_to_group("KILL", &master);
    }
}

/// Returns a value that Postfix was built with.
fn default_of(parameter: &str) -> String {
    let output = Command::new("postconf").args(["-dh", parameter]).output().unwrap_or_else(|error| {
        panic!("Postfix is not installed ({error}): install the package `postfix` so that it does not start by itself")
    });
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn maildir(mailbox: &str) -> PathBuf {
    let (local, domain) = mailbox.rsplit_once('@').expect("an address");
    Path::new(domain).join(local)
}
