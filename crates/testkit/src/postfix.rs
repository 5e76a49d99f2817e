//! A private Postfix on loopback ports: everything of it lies in a temporary directory, and everything of it is gone
//! when it is dropped. It needs the package `postfix` and root, since Postfix's master does.
//!
//! Mail for domains that are not its own goes to one address, a [`crate::SmtpSink`] for example; no name is ever looked
//! up and nothing leaves the machine.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;

use crate::logger::Logger;

use crate::guard::Guard;
use crate::hand_in::HandIn;
use crate::ports::free_port;

/// How long a start or a stop may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long to wait between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Postfix waits for a file to grow older than this before it reads it, in case it is still being written.
const OLD_ENOUGH: Duration = Duration::from_secs(60);
/// Who owns delivered mail; the number need not belong to anybody.
const MAIL_OWNER: u32 = 5000;

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

    /// Brings messages to a mailbox as another mail server does, one after the other, and waits until nothing more happens to
    /// them; their queue ids.
    ///
    /// # Panics
    /// When one is refused.
    pub async fn deliver(&self, sender: &str, recipient: &str, messages: &[&[u8]]) -> Vec<String> {
        let mut connection = HandIn::connect(self.smtp, "EHLO client.example").await;
        let mut queue_ids = Vec::new();
        for message in messages {
            let reply = connection.message(sender, recipient, message).await;
            let (_, queue_id) = reply.split_once("queued as ").expect("a queue id");
            queue_ids.push(queue_id.to_owned());
        }
        self.done_with(&queue_ids).await;
        queue_ids
    }

    /// Waits until Postfix has tried every recipient of these messages, and of the notices that it wrote about them.
    ///
    /// # Panics
    /// When that does not come.
    pub async fn done_with(&self, queue_ids: &[String]) {
        self.wait_for(&format!("the end of {queue_ids:?}"), || {
            let log = fs::read(self.log()).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let mut waiting = queue_ids.to_vec();
            while let Some(queue_id) = waiting.pop() {
                let of_it = format!(": {queue_id}: ");
                let lines: Vec<_> = log.lines().filter_map(|line| Some(line.split_once(&of_it)?.1)).collect();
                waiting.extend(lines.iter().filter_map(|line| Some(line.split_once("notification: ")?.1.to_owned())));
                (lines.contains(&"removed") || all_are_put_off(&lines)).then_some(())?;
            }
            Some(())
        })
        .await;
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
        // To the master alone, who tells the others; but nobody tells them of a kill.
        let group = if name == "KILL" { "-" } else { "" };
        let status = Command::new("kill").args(["-s", name, "--", &format!("{group}{}", master.id())]).status();
        assert!(status.expect("kill(1) runs").success(), "Postfix is gone already");
    }

    fn lay_out(&self, settings: &PostfixSettings) {
        set_mode(self.dir.path(), 0o755);
        for name in ["etc", "queue", "data", "mail", "log"] {
            fs::create_dir(self.path(name)).expect("a directory");
        }
        let (postfix, postdrop) = (id_of("-u", "postfix"), group_of("postdrop"));
        own(&self.path("mail"), MAIL_OWNER, MAIL_OWNER);
        own(&self.path("data"), postfix, 0);
        for (name, mode) in QUEUE {
            let path = self.path("queue").join(name);
            fs::create_dir(&path).expect("a queue directory");
            let group = if ["maildrop", "public"].contains(&name) { postdrop } else { 0 };
            own(&path, if name == "pid" { 0 } else { postfix }, group);
            set_mode(&path, mode);
        }
        self.write("etc/main.cf", &self.main_cf(settings));
        self.write("etc/master.cf", &self.master_cf(settings));
    }

    fn main_cf(&self, settings: &PostfixSettings) -> String {
        let (dir, remote) = (self.dir.path().display(), settings.remote);
        let yes_or_no = |yes| if yes { "yes" } else { "no" };
        let mut text = format!(
            "compatibility_level = 3.6
queue_directory = {dir}/queue
data_directory = {dir}/data
maillog_file = {dir}/log/mail.log
maillog_file_prefixes = {dir}
myhostname = mx.example.org
mydomain = example.org
myorigin = example.org
mydestination =
local_transport = error:5.1.1 no local delivery
alias_maps =
alias_database =
local_recipient_maps =
notify_classes =
mynetworks = 127.0.0.255/32
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
smtpd_peername_lookup = no
smtp_dns_support_level = disabled
smtp_host_lookup = native
relayhost = [{}]:{}
virtual_alias_domains =
recipient_delimiter = +
smtpd_relay_restrictions = permit_mynetworks, reject_unauth_destination
minimal_backoff_time = {}s
maximal_backoff_time = {}s
queue_run_delay = {}s
maximal_queue_lifetime = {}s
bounce_queue_lifetime = {}s
enable_long_queue_ids = {}
message_size_limit = 52428800
smtputf8_enable = yes
biff = no
",
            remote.ip(),
            remote.port(),
            settings.backoff_seconds,
            settings.backoff_seconds,
            settings.backoff_seconds,
            settings.queue_lifetime_seconds,
            settings.queue_lifetime_seconds,
            yes_or_no(settings.long_queue_ids),
        );
        text += &self.recipients(&settings.recipients);
        text += &match &settings.delivery {
            PostfixDelivery::Lmtp(socket) => format!("virtual_transport = lmtp:unix:{}\n", socket.display()),
            PostfixDelivery::Maildirs => format!(
                "virtual_transport = virtual\nvirtual_mailbox_base = {dir}/mail\nvirtual_minimum_uid = 1\nvirtual_mailbox_limit = 0\n\
                 virtual_uid_maps = static:{MAIL_OWNER}\nvirtual_gid_maps = static:{MAIL_OWNER}\n"
            ),
        };
        if let Some((certificate, key)) = &settings.tls {
            text += &format!(
                "smtpd_tls_security_level = may\nsmtpd_tls_cert_file = {}\nsmtpd_tls_key_file = {}\n",
                certificate.display(),
                key.display()
            );
        }
        let further = settings.parameters.iter().map(|(name, value)| format!("{name} = {value}\n"));
        text + &further.collect::<String>()
    }

    fn recipients(&self, recipients: &PostfixRecipients) -> String {
        let (domains, mailboxes, aliases) = match recipients {
            PostfixRecipients::Tables { domains, mailboxes, aliases } => {
                (domains.clone(), mailboxes.clone(), aliases.clone())
            }
            PostfixRecipients::Fixed { domains, mailboxes, aliases } => {
                let table = |name: &str, rows: Vec<String>| {
                    self.write(name, &rows.concat());
                    format!("texthash:{}", self.path(name).display())
                };
                let rows = mailboxes.iter().map(|mailbox| format!("{mailbox} {}/\n", maildir(mailbox).display()));
                let mailboxes = table("etc/mailboxes", rows.collect());
                let rows = aliases.iter().map(|(from, to)| format!("{from} {to}\n"));
                (domains.join(", "), mailboxes, table("etc/aliases", rows.collect()))
            }
        };
        format!(
            "virtual_mailbox_domains = {domains}\nvirtual_mailbox_maps = {mailboxes}\nvirtual_alias_maps = {aliases}\n"
        )
    }

    fn master_cf(&self, settings: &PostfixSettings) -> String {
        let logger = (!settings.separate_logger).then_some(&LOGGER);
        let daemons: String = DAEMONS.iter().chain(logger).map(|line| format!("{line}\n")).collect();
        format!(
            "{} inet n - n - - smtpd\n{} inet n - n - - smtpd\n  -o syslog_name=postfix/api\n  \
             -o mynetworks=127.0.0.0/8\n  -o smtpd_relay_restrictions=permit_mynetworks,reject\n  \
             -o smtpd_client_event_limit_exceptions=127.0.0.0/8\n{daemons}",
            self.smtp, self.api
        )
    }

    fn write(&self, name: &str, text: &str) {
        let mut file = File::create(self.path(name)).expect("a file");
        file.write_all(text.as_bytes()).expect("room for a file");
        #[expect(clippy::disallowed_methods, reason = "the time of a file is the system's")]
        let before = SystemTime::now() - OLD_ENOUGH;
        file.set_modified(before).expect("the file's time can be set");
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        let Some((mut master, _guard)) = self.master.take() else { return };
        let group = format!("-{}", master.id());
        let tell = |signal: &str| {
            // Those that are gone already cannot be told.
            let _ = Command::new("kill").args(["-s", signal, "--", group.as_str()]).stderr(Stdio::null()).status();
        };
        tell("TERM");
        let _ = master.wait();
        tell("KILL");
    }
}

const QUEUE: [(&str, u32); 14] = [
    ("active", 0o700),
    ("bounce", 0o700),
    ("corrupt", 0o700),
    ("defer", 0o700),
    ("deferred", 0o700),
    ("flush", 0o700),
    ("hold", 0o700),
    ("incoming", 0o700),
    ("maildrop", 0o730),
    ("pid", 0o755),
    ("private", 0o700),
    ("public", 0o710),
    ("saved", 0o700),
    ("trace", 0o700),
];

const DAEMONS: [&str; 18] = [
    "pickup unix n - n 60 1 pickup",
    "cleanup unix n - n - 0 cleanup",
    "qmgr unix n - n 300 1 qmgr",
    "tlsmgr unix - - n 1000? 1 tlsmgr",
    "rewrite unix - - n - - trivial-rewrite",
    "bounce unix - - n - 0 bounce",
    "defer unix - - n - 0 bounce",
    "trace unix - - n - 0 bounce",
    "verify unix - - n - 1 verify",
    "flush unix n - n 1000? 0 flush",
    "proxymap unix - - n - - proxymap",
    "smtp unix - - n - - smtp",
    "error unix - - n - - error",
    "retry unix - - n - - error",
    "discard unix - - n - - discard",
    "lmtp unix - - n - - lmtp",
    "virtual unix - n n - - virtual",
    "anvil unix - - n - 1 anvil",
];

const LOGGER: &str = "postlog unix-dgram n - n - 1 postlogd";

/// Whether each recipient of a message in the queue was tried, to judge by the log's lines about it.
fn all_are_put_off(lines: &[&str]) -> bool {
    let Some(entered) = lines.iter().position(|line| line.contains("(queue active)")) else { return false };
    let count = lines[entered].split_once("nrcpt=").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    let tried: BTreeSet<_> = lines[entered..].iter().filter(|line| line.starts_with("to=<")).collect();
    count.is_some_and(|count: usize| tried.len() >= count)
}

/// A value that Postfix was built with.
fn default_of(parameter: &str) -> String {
    let output = Command::new("postconf").args(["-dh", parameter]).output().unwrap_or_else(|error| {
        panic!("Postfix is not installed ({error}): install the package `postfix` so that it does not start by itself")
    });
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn id_of(option: &str, user: &str) -> u32 {
    let output = Command::new("id").args([option, user]).output().expect("id(1) runs");
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or_else(|_| panic!("there is no user {user}"))
}

fn group_of(name: &str) -> u32 {
    let groups = fs::read_to_string("/etc/group").expect("the groups");
    let line = groups.lines().find(|line| line.split(':').next() == Some(name));
    let number = line.and_then(|line| line.split(':').nth(2)).and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("there is no group {name}"))
}

fn own(path: &Path, user: u32, group: u32) {
    let owned = chown(path, Some(user), Some(group));
    owned.unwrap_or_else(|error| panic!("a private Postfix needs root ({}: {error})", path.display()));
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions can be set");
}

fn maildir(mailbox: &str) -> PathBuf {
    let (local, domain) = mailbox.rsplit_once('@').expect("an address");
    Path::new(domain).join(local)
}
