//! A private Dovecot on loopback.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::guard::Guard;
use crate::hand_in::HandIn;
use crate::ports::free_port;

/// The program; Debian's packages put it there.
const PROGRAM: &str = "/usr/sbin/dovecot";
/// Where its mail lies belongs to this number, which needs no account.
const MAIL_UID: u32 = 5000;
/// How often, and at which distance, a fresh server is tried.
const STARTING: (u32, Duration) = (500, Duration::from_millis(10));
/// The same for one that was killed.
const ENDING: (u32, Duration) = (600, Duration::from_millis(50));

/// A Dovecot of its own: configuration, mail, log and sockets in a temporary directory, IMAP and LMTP on loopback ports.
/// It ends when this is dropped.
pub struct Dovecot {
    directory: TempDir,
    imap: SocketAddr,
    lmtp: SocketAddr,
    more: String,
    /// Where the configuration lies that it was given, when that is not its own.
    printed: Option<PathBuf>,
    mailboxes: Mutex<BTreeMap<String, Option<u64>>>,
    child: Option<(Child, Guard)>,
}

impl Dovecot {
    /// Who may act as every mailbox.
    pub const MASTER_USER: &'static str = "mailapi";
    /// The master user's password.
    pub const MASTER_PASSWORD: &'static str = "master-secret";
    /// Every mailbox's own password.
    pub const PASSWORD: &'static str = "mailbox-secret";

    /// Starts one.
    ///
    /// # Panics
    /// When Dovecot is not installed or does not start.
    pub async fn start() -> Self {
        Self::start_with("").await
    }

    /// Starts one with more lines of configuration, which come last.
    ///
    /// # Panics
    /// As [`Dovecot::start`].
    pub async fn start_with(more: &str) -> Self {
        let mut dovecot = Self::laid_out(free_port(), more, None);
        dovecot.write_users();
        dovecot.resume().await;
        dovecot
    }

    /// Starts one with the dovecot.conf of this directory, which must name this port for IMAP. Only what has to lie or
    /// to run elsewhere in a test is changed: it runs in a temporary directory, and the sockets for Postfix are there.
    ///
    /// # Panics
    /// As [`Dovecot::start`].
    pub async fn start_printed(directory: &Path, imap: SocketAddr) -> Self {
        let mut dovecot = Self::laid_out(imap, "", Some(directory.to_owned()));
        fs::create_dir(dovecot.path("sockets")).expect("a directory for sockets");
        dovecot.resume().await;
        dovecot
    }

    /// Where Postfix delivers, when it was started with a printed configuration.
    #[must_use]
    pub fn lmtp_socket(&self) -> PathBuf {
        self.path("sockets/dovecot-lmtp")
    }

    fn laid_out(imap: SocketAddr, more: &str, printed: Option<PathBuf>) -> Self {
        for file in [PROGRAM, "/usr/lib/dovecot/imap", "/usr/lib/dovecot/lmtp"] {
            assert!(
                Path::new(file).exists(),
                "{file} is missing: these tests need Dovecot (apt-get install dovecot-imapd dovecot-lmtpd)"
            );
        }
        let directory = TempDir::new().expect("a temporary directory");
        // Its processes have users of their own, and all must get there.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("its mode is set");
        let mail = directory.path().join("mail");
        fs::create_dir(&mail).expect("a directory for mail");
        chown(&mail, Some(MAIL_UID), Some(MAIL_UID)).expect("root gives the mail directory away");
        Self {
            directory,
            imap,
            lmtp: free_port(),
            more: more.to_owned(),
            mailboxes: Mutex::default(),
            printed,
            child: None,
        }
    }

    /// Where it speaks IMAP.
    #[must_use]
    pub const fn imap(&self) -> SocketAddr {
        self.imap
    }

    /// The id of its first process, the parent of the others; `None` when it does not run.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.child.as_ref().map(|(child, _)| child.id())
    }

    /// Starts it again on the same ports after [`Dovecot::stop`].
    ///
    /// # Panics
    /// When it does not start.
    pub async fn resume(&mut self) {
        self.replace("dovecot.conf", &self.configuration());
        if self.printed.is_some() {
            return self.run().await;
        }
        self.replace("masters", &format!("{}:{{PLAIN}}{}\n", Self::MASTER_USER, Self::MASTER_PASSWORD));
        self.replace("accounts.conf", &self.accounts());
        self.run().await;
    }

    /// Kills it in the middle of whatever it does, and waits until its processes have noticed that the master is gone;
    /// [`Dovecot::resume`] starts it again.
    ///
    /// # Panics
    /// When they do not end.
    pub async fn kill(&mut self) {
        let Some((mut child, _guard)) = self.child.take() else { return };
        let _ = child.kill();
        let _ = child.wait();
        let sockets = [self.path("run/lmtp"), self.path("run/login/imap"), self.lmtp_socket()];
        for _ in 0..ENDING.0 {
            let is_held = sockets.iter().any(|socket| UnixStream::connect(socket).is_ok());
            if !is_held && [self.imap, self.lmtp].iter().all(|port| TcpListener::bind(port).is_ok()) {
                return;
            }
            tokio::time::sleep(ENDING.1).await;
        }
        panic!("dovecot's processes do not end: {}", self.read("log"));
    }

    async fn run(&mut self) {
        let mut command = Command::new(PROGRAM);
        command.arg("-F").arg("-c").arg(self.path("dovecot.conf")).stdin(Stdio::null());
        let output = fs::File::create(self.path("output")).expect("a file for its output");
        command.stdout(output.try_clone().expect("the same file")).stderr(output);
        let mut child = command.spawn().expect("dovecot is run");
        let guard = Guard::over(child.id().into(), self.directory.path());
        for _ in 0..STARTING.0 {
            let is_there = TcpStream::connect(self.imap).await.is_ok() && TcpStream::connect(self.lmtp).await.is_ok();
            let has_ended = child.try_wait().expect("the child is asked").is_some();
            if is_there && !has_ended {
                self.child = Some((child, guard));
                return;
            }
            if has_ended {
                break;
            }
            tokio::time::sleep(STARTING.1).await;
        }
        let _ = child.kill();
        let _ = child.wait();
        panic!("dovecot does not start: {}{}", self.read("output"), self.read("log"));
    }

    /// Ends it; its mail stays. Connections are closed.
    pub fn stop(&mut self) {
        let Some((mut child, _guard)) = self.child.take() else { return };
        // The master ends its other processes when it is asked to end, and not when it is killed.
        let asked = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _ = child.kill();
        }
        let _ = child.wait();
    }

    /// Makes a mailbox, or changes how much it may hold.
    pub fn put_mailbox(&self, address: &str, quota_bytes: Option<u64>) {
        self.mailboxes.lock().expect("the list of mailboxes").insert(address.to_owned(), quota_bytes);
        self.write_users();
    }

    /// Removes a mailbox with its mail, and closes its connections.
    pub fn remove_mailbox(&self, address: &str) {
        self.mailboxes.lock().expect("the list of mailboxes").remove(address);
        self.write_users();
        let _ = self.run_doveadm(&["kick", address]);
        let _ = fs::remove_dir_all(self.home(address));
    }

    /// Brings a message to a mailbox as another mail server does, over LMTP.
    ///
    /// # Panics
    /// When Dovecot does not take it.
    pub async fn deliver(&self, address: &str, message: &[u8]) {
        let mut connection = HandIn::connect(self.lmtp, "LHLO client.example").await;
        connection.message("ann@elsewhere.example", address, message).await;
    }

    /// Puts a file into a mailbox's INBOX without Dovecot's knowledge: quick for many messages.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn drop_message(&self, address: &str, number: u32, message: &[u8]) {
        let inbox = self.home(address).join("Maildir");
        let folder = inbox.join("new");
        if !folder.exists() {
            for name in ["cur", "new", "tmp"] {
                fs::create_dir_all(inbox.join(name)).expect("the maildir is made");
            }
            let parents = [inbox.join("cur"), folder.clone(), inbox.join("tmp"), inbox.clone(), self.home(address)];
            let domain = self.home(address).parent().map(Path::to_path_buf);
            for path in parents.into_iter().chain(domain) {
                chown(path, Some(MAIL_UID), Some(MAIL_UID)).expect("root gives the maildir away");
            }
        }
        // Dovecot's hash of a name hears most of the last seven letters: with the same ones a large folder takes minutes.
        let file = folder.join(format!("{}.M{number}P1.{number:07}", 1_700_000_000 + number));
        fs::write(&file, message).expect("the message is written");
        chown(file, Some(MAIL_UID), Some(MAIL_UID)).expect("root gives the message away");
    }

    /// Runs `doveadm`: what a mail client, or the operator, does to a mailbox. Its output.
    ///
    /// # Panics
    /// When the command fails.
    pub fn doveadm(&self, arguments: &[&str]) -> String {
        let output = self.run_doveadm(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "doveadm {arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Whether a mailbox has this folder.
    ///
    /// # Panics
    /// When there is no such mailbox.
    #[must_use]
    pub fn has_folder(&self, address: &str, folder: &str) -> bool {
        self.doveadm(&["mailbox", "list", "-u", address]).lines().any(|line| line == folder)
    }

    /// Makes a folder, as a mail client does.
    ///
    /// # Panics
    /// When it is there already.
    pub fn create_folder(&self, address: &str, folder: &str) {
        self.doveadm(&["mailbox", "create", "-u", address, folder]);
    }

    /// Replaces a message's flags, as a mail client does.
    ///
    /// # Panics
    /// When the folder is missing.
    pub fn set_flags(&self, address: &str, folder: &str, uid: u32, flags: &[&str]) {
        let of = ["-u", address, &flags.join(" "), "mailbox", folder, "uid", &uid.to_string()];
        self.doveadm(&[&["flags", "replace"][..], &of].concat());
    }

    /// Moves a message into another folder, as a mail client does.
    ///
    /// # Panics
    /// When a folder is missing.
    pub fn move_message(&self, address: &str, folder: &str, uid: u32, target: &str) {
        self.doveadm(&["move", "-u", address, target, "mailbox", folder, "uid", &uid.to_string()]);
    }

    /// A message's flags, as a mail client sees them, but for the one that only tells whether the client is the first.
    ///
    /// # Panics
    /// When the folder is missing.
    #[must_use]
    pub fn flags(&self, address: &str, folder: &str, uid: u32) -> Vec<String> {
        let of = ["-u", address, "flags", "mailbox", folder, "uid", &uid.to_string()];
        let told = self.doveadm(&[&["-f", "tab", "fetch"][..], &of].concat());
        let flags = told.lines().nth(1).unwrap_or_default().split(' ').map(ToOwned::to_owned);
        flags.filter(|flag| !flag.is_empty() && flag != "\\Recent").collect()
    }

    /// Puts a message into a folder, as a mail client does with a draft. Nothing is added to it.
    ///
    /// # Panics
    /// When the folder is missing.
    pub fn append(&self, address: &str, folder: &str, message: &[u8]) {
        let mut command = Command::new("doveadm");
        command.arg("-c").arg(self.path("dovecot.conf")).args(["save", "-u", address, "-m", folder]);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("doveadm is run");
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(message).expect("the message is read");
        drop(input);
        assert!(child.wait().expect("doveadm ends").success(), "the message is not put into {folder} of {address}");
    }

    /// What it logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.read("log")
    }

    fn run_doveadm(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = Command::new("doveadm");
        command.arg("-c").arg(self.path("dovecot.conf")).args(arguments);
        command.output().expect("doveadm is run")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn home(&self, address: &str) -> PathBuf {
        let (local, domain) = address.split_once('@').expect("an address");
        self.path("mail").join(domain).join(local)
    }

    /// Dovecot looks at a file of this kind again whenever it was replaced, however soon; at a passwd-file it looks
    /// once a second.
    fn write_users(&self) {
        let mut users = String::new();
        for (address, quota) in &*self.mailboxes.lock().expect("the list of mailboxes") {
            let home = self.home(address);
            let quota = quota.map(|bytes| format!(",\"quota_rule\":\"*:bytes={bytes}\"")).unwrap_or_default();
            let _ = write!(
                users,
                "shared/passdb/{address}\n{{\"password\":\"{}\"}}\n\
                 shared/userdb/{address}\n{{\"home\":\"{}\"{quota}}}\n",
                Self::PASSWORD,
                home.display()
            );
        }
        self.replace("users", &users);
    }

    /// A reader sees the old file or the new one.
    fn replace(&self, name: &str, text: &str) {
        let new = self.path(&format!("{name}.new"));
        fs::write(&new, text).expect("a file is written");
        fs::rename(new, self.path(name)).expect("a file is put in place");
    }

    /// Where it finds mailboxes.
    fn accounts(&self) -> String {
        format!(
            "uri = file:{}/users\ndefault_pass_scheme = PLAIN\niterate_disable = yes\n\
             key passdb {{\n key = passdb/%u\n format = json\n}}\n\
             key userdb {{\n key = userdb/%u\n format = json\n}}\n\
             passdb_objects = passdb\nuserdb_objects = userdb\n",
            self.directory.path().display()
        )
    }

    /// Failed log-ins are not delayed, so that tests need not wait; everything else is as usual.
    fn configuration(&self) -> String {
        if let Some(printed) = &self.printed {
            return self.adapted(&fs::read_to_string(printed.join("dovecot.conf")).expect("a printed configuration"));
        }
        let (root, imap, lmtp, more) =
            (self.directory.path().display(), self.imap.port(), self.lmtp.port(), &self.more);
        format!(
            "base_dir = {root}/run\nstate_dir = {root}/state\ninstance_name = {name}\nlog_path = {root}/log\n\
             protocols = imap lmtp\nlisten = 127.0.0.1\nssl = no\ndisable_plaintext_auth = no\n\
             auth_mechanisms = plain login\nauth_master_user_separator = *\nauth_failure_delay = 0\n\
             mail_uid = {MAIL_UID}\nmail_gid = {MAIL_UID}\nfirst_valid_uid = {MAIL_UID}\n\
             mail_location = maildir:~/Maildir\nmailbox_list_index = yes\nmail_plugins = quota\n\
             namespace inbox {{\n inbox = yes\n separator = /\n}}\n\
             passdb {{\n driver = passwd-file\n args = {root}/masters\n master = yes\n result_success = continue\n}}\n\
             passdb {{\n driver = dict\n args = {root}/accounts.conf\n}}\n\
             userdb {{\n driver = dict\n args = {root}/accounts.conf\n}}\n\
             service anvil {{\n unix_listener anvil-auth-penalty {{\n  mode = 0\n }}\n}}\n\
             service imap-login {{\n inet_listener imap {{\n  port = {imap}\n }}\n inet_listener imaps {{\n  port = 0\n }}\n}}\n\
             service lmtp {{\n inet_listener lmtp {{\n  port = {lmtp}\n }}\n}}\n\
             protocol imap {{\n mail_plugins = $mail_plugins imap_quota\n}}\n\
             protocol lmtp {{\n postmaster_address = postmaster@example.org\n}}\n\
             plugin {{\n quota = count:User quota\n quota_vsizes = yes\n quota_rule = *:storage=0\n}}\n{more}\n",
            name = format_args!("mailapi-test-{imap}"),
        )
    }

    /// A configuration that was made for a whole machine, in a directory of its own. What comes last counts.
    fn adapted(&self, text: &str) -> String {
        let (root, lmtp) = (self.directory.path().display(), self.lmtp.port());
        let text = text.replace("/var/spool/postfix/private", &format!("{root}/sockets"));
        format!(
            "{text}\nbase_dir = {root}/run\nstate_dir = {root}/state\ninstance_name = mailapi-test-{imap}\n\
             log_path = {root}/log\nauth_failure_delay = 0\nmail_uid = {MAIL_UID}\nmail_gid = {MAIL_UID}\n\
             first_valid_uid = {MAIL_UID}\nmail_home = {root}/mail/%d/%n\n\
             service anvil {{\n unix_listener anvil-auth-penalty {{\n  mode = 0\n }}\n}}\n\
             service lmtp {{\n inet_listener lmtp {{\n  port = {lmtp}\n }}\n}}\n\
             protocol lmtp {{\n postmaster_address = postmaster@example.org\n}}\n",
            imap = self.imap.port(),
        )
    }
}

impl Drop for Dovecot {
    fn drop(&mut self) {
        self.stop();
    }
}
