//! A private Postfix on loopback ports: everything of it lies in a temporary directory, and everything of it is gone
//! when it is dropped. It needs the package `postfix` and root, since Postfix's master does.
//!
//! Mail for domains that are not its own goes to one address, a [`crate::SmtpSink`] for example; no name is ever looked
//! up and nothing leaves the machine.

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

/// How long a start or a stop may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How a private Postfix is set up.
#[derive(Debug, Clone)]
pub struct PostfixSettings {
    /// Whose mail it delivers.
    pub recipients: PostfixRecipients,
    /// Where it delivers.
    pub delivery: PostfixDelivery,
    /// Where mail for other domains goes.
    pub remote: SocketAddr,
    /// How long it waits between two tries of a message. Default: 2 seconds. With 1 second, its clock of whole seconds
    /// lets a scan of the queue meet a message that is just being put off; it is then left lying until a restart.
    pub backoff_seconds: u32,
    /// After how long it gives a message up. Default: 1 day.
    pub queue_lifetime_seconds: u32,
    /// Whether queue ids are never used again. Default: yes.
    pub long_queue_ids: bool,
    /// A certificate and its key, both PEM files; then STARTTLS is offered. Default: none.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Whether a logger apart from it writes its log, as syslog does. Otherwise it writes the log itself, and the last
    /// lines die with it when it is killed. Default: no.
    pub separate_logger: bool,
    /// Further lines of main.cf, name and value. Default: none.
    pub parameters: Vec<(String, String)>,
}

/// Whose mail is delivered.
#[derive(Debug, Clone)]
pub enum PostfixRecipients {
    /// These and nobody else.
    Fixed {
        /// The domains.
        domains: Vec<String>,
        /// The mailboxes, as addresses.
        mailboxes: Vec<String>,
        /// Aliases and where they lead.
        aliases: Vec<(String, String)>,
    },
    /// Whoever is in these tables, such as `sqlite:/path/to/mailboxes.cf`.
    Tables {
        /// Domain names.
        domains: String,
        /// Mailboxes by address.
        mailboxes: String,
        /// Aliases by address.
        aliases: String,
    },
}

/// Where mail is delivered.
#[derive(Debug, Clone)]
pub enum PostfixDelivery {
    /// Into maildirs of its own; [`Postfix::delivered`] reads them.
    Maildirs,
    /// By LMTP to this socket.
    Lmtp(PathBuf),
}

impl PostfixSettings {
    /// Two domains, `example.org` and `example.com`, with these mailboxes; everything else goes to `remote`.
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
    program: PathBuf,
    smtp: SocketAddr,
    api: SocketAddr,
    /// Outlives the daemons; `None` when one of them writes the log.
    logger: Option<Logger>,
}

impl Postfix {
    /// Starts one and waits until it takes mail.
    ///
    /// # Panics
    /// When Postfix is not installed, or this is not root, or it does not come up; the message says which.
    pub async fn start(settings: &PostfixSettings) -> Self {
        let program = PathBuf::from(default_of("daemon_directory")).join("master");
        assert!(program.exists(), "Postfix is not whole: there is no {}", program.display());
        let dir = tempfile::Builder::new().prefix("postfix-").tempdir().expect("a temporary directory");
        let (smtp, api) = (free_port(), free_port());
        let mut postfix = Self { dir, master: None, program, smtp, api, logger: None };
        postfix.lay_out(settings);
        if settings.separate_logger {
            postfix.listen_for_lines();
        }
        postfix.run().await;
        postfix
    }

    /// The listener for mail from everybody, without relaying; its lines are of `postfix/smtpd`.
    #[must_use]
    pub const fn smtp(&self) -> SocketAddr {
        self.smtp
    }

    /// The listener that takes mail for everybody from this machine; its lines are of `postfix/api/smtpd`.
    #[must_use]
    pub const fn api(&self) -> SocketAddr {
        self.api
    }

    /// Its log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.path("log/mail.log")
    }

    /// The id of its first process, the parent of the others; `None` when it does not run.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.master.as_ref().map(|(master, _)| master.id())
    }

    /// Where its main.cf lies.
    #[must_use]
    pub fn config_dir(&self) -> PathBuf {
        self.path("etc")
    }

    /// The messages in a mailbox, when it delivers into maildirs.
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

    /// Waits until the log holds a line with all of these texts, and returns it.
    ///
    /// # Panics
    /// When it does not come.
    pub async fn logged(&self, texts: &[&str]) -> String {
        self.wait_for(&format!("a line with {texts:?}"), || {
            let log = fs::read_to_string(self.log()).unwrap_or_default();
            log.lines().find(|line| texts.iter().all(|text| line.contains(text))).map(str::to_owned)
        })
        .await
    }

    /// Lets it write to its log under the log's name again, after that was renamed.
    ///
    /// # Panics
    /// When it does not run.
    pub fn reopen_log(&self) {
        self.signal("HUP");
    }

    /// Kills it in the middle of whatever it does.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self) {
        self.signal("KILL");
        let (mut master, _guard) = self.master.take().expect("a running Postfix");
        master.wait().expect("the end of the master");
    }

    /// Starts it again after [`Postfix::kill`], on the same ports.
    ///
    /// # Panics
    /// When it does not come up.
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
        let output = File::create(self.path("log/start.log")).expect("a file for its output");
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(self.config_dir()).arg("-d").current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(output.try_clone().expect("a second handle")).stderr(output);
        // A group of its own, so that signals reach all of it and nothing else.
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
            panic!("Postfix does not answer at {address}; it said:\n{}", self.said());
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
            Err(_) => panic!("there is not {what}; Postfix said:\n{}", self.said()),
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

/// A value that Postfix was built with.
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
