//! A private Dovecot on loopback.

mod accounts;
mod mailboxes;
mod settings;

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mailapi_backend_external::printed::DovecotVersion;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::guard::Guard;
use crate::ports::free_port;
use crate::signal;
use accounts::Accounts;
pub(crate) use settings::installed_version;
pub use settings::{DovecotFormat, DovecotSettings};
use settings::{Place, lines_of};

/// The program; Debian's packages put it there.
const PROGRAM: &str = "/usr/sbin/dovecot";
/// What else must be there: the sockets for Postfix belong to Postfix's user.
const NEEDED: [&str; 4] = [PROGRAM, "/usr/lib/dovecot/imap", "/usr/lib/dovecot/lmtp", "/usr/sbin/postfix"];
/// The database of its accounts.
const ACCOUNTS: &str = "accounts/accounts.db";
/// Where its mail lies belongs to this number, which needs no account.
const MAIL_UID: u32 = 5000;
/// How often, and at which distance, a fresh server is tried.
const STARTING: (u32, Duration) = (6_000, Duration::from_millis(10));
/// The same for one that was killed.
const ENDING: (u32, Duration) = (1_200, Duration::from_millis(50));

/// A Dovecot of its own: configuration, mail, log and sockets in a temporary directory, IMAP and LMTP on loopback ports.
/// It ends when this is dropped.
pub struct Dovecot {
    directory: TempDir,
    imap: SocketAddr,
    lmtp: SocketAddr,
    /// Where the configuration lies that it was given.
    printed: PathBuf,
    /// What is added to it.
    lines: String,
    /// Whom it knows, when it has the configuration that is printed here.
    accounts: Option<Accounts>,
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

    /// Starts one with other settings. It has the configuration that the product prints for its version, with mailboxes
    /// that [`Dovecot::put_mailbox`] makes, and without folders that make themselves.
    ///
    /// # Panics
    /// As [`Dovecot::start`].
    pub async fn start_with(settings: impl Into<DovecotSettings>) -> Self {
        let settings = settings.into();
        let mut dovecot = Self::laid_out(free_port(), None);
        dovecot.accounts = Some(Accounts::new(&dovecot.path(ACCOUNTS)));
        settings::print(&dovecot.printed, dovecot.imap, dovecot.path(ACCOUNTS), &settings);
        dovecot.lines = lines_of(&settings);
        dovecot.resume().await;
        dovecot
    }

    /// Starts one with the dovecot.conf of this directory, which must name this port for IMAP. Only what has to lie or
    /// to run elsewhere in a test is changed: it runs in a temporary directory, and the sockets for Postfix are there.
    ///
    /// # Panics
    /// As [`Dovecot::start`].
    pub async fn start_printed(directory: &Path, imap: SocketAddr) -> Self {
        let mut dovecot = Self::laid_out(imap, Some(directory));
        dovecot.resume().await;
        dovecot
    }

    /// The version that is installed, as `mailapi config dovecot --version` names it.
    ///
    /// # Panics
    /// When it is one for which the product prints nothing.
    #[must_use]
    pub fn version() -> &'static str {
        match installed_version() {
            DovecotVersion::V2_3 => "2.3",
            DovecotVersion::V2_4 => "2.4",
        }
    }

    /// Whether its administration over HTTP can be told to forget what it cached of an account: that of 2.4.1 panics.
    ///
    /// # Panics
    /// As [`Dovecot::version`].
    #[must_use]
    pub fn flushes_auth_cache() -> bool {
        installed_version() == DovecotVersion::V2_3
    }

    /// Where Postfix delivers.
    #[must_use]
    pub fn lmtp_socket(&self) -> PathBuf {
        self.path("sockets/dovecot-lmtp")
    }

    fn laid_out(imap: SocketAddr, printed: Option<&Path>) -> Self {
        for file in NEEDED {
            assert!(Path::new(file).exists(), "{file} is missing: these tests need what ./test installs");
        }
        let directory = TempDir::new().expect("a temporary directory");
        // Its processes have users of their own, and all must get there.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("its mode is set");
        let [mail, sockets] = ["mail", "sockets"].map(|name| directory.path().join(name));
        for place in [&mail, &sockets] {
            fs::create_dir(place).expect("a directory");
        }
        chown(&mail, Some(MAIL_UID), Some(MAIL_UID)).expect("root gives the mail directory away");
        Self {
            imap,
            lmtp: free_port(),
            printed: printed.map_or_else(|| directory.path().join("printed"), Path::to_path_buf),
            lines: String::new(),
            accounts: None,
            directory,
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
        let printed = fs::read_to_string(self.printed.join("dovecot.conf")).expect("a printed configuration");
        let place = Place { root: self.directory.path(), imap: self.imap, lmtp: self.lmtp };
        fs::write(self.path("dovecot.conf"), place.adapted(&printed, &self.lines)).expect("a file is written");
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
        if !signal::send_signal("TERM", &child) {
            let _ = child.kill();
        }
        let _ = child.wait();
    }

    /// What it logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.read("log")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

impl Drop for Dovecot {
    fn drop(&mut self) {
        self.stop();
    }
}
