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

/// The program, where Debian's packages install it.
const PROGRAM: &str = "/usr/sbin/dovecot";
/// Other required files: the sockets for Postfix belong to Postfix's user.
const NEEDED: [&str; 4] = [PROGRAM, "/usr/lib/dovecot/imap", "/usr/lib/dovecot/lmtp", "/usr/sbin/postfix"];
/// The database of its accounts.
const ACCOUNTS: &str = "accounts/accounts.db";
/// Owner of its mail; the user need not exist.
const MAIL_UID: u32 = 5000;
/// Number of attempts to connect to a new server, and the pause between them.
const STARTING: (u32, Duration) = (6_000, Duration::from_millis(10));
/// Number of checks whether a killed server has ended, and the pause between them.
const ENDING: (u32, Duration) = (1_200, Duration::from_millis(50));

/// A private Dovecot: configuration, mail, log and sockets in a temporary directory, IMAP and LMTP on
/// loopback ports. It stops when this is dropped.
pub struct Dovecot {
    directory: TempDir,
    imap: SocketAddr,
    lmtp: SocketAddr,
    /// Directory of the configuration it was given.
    printed: PathBuf,
    /// Lines added to the configuration.
    lines: String,
    /// Its accounts, unless the test printed the configuration.
    accounts: Option<Accounts>,
    child: Option<(Child, Guard)>,
}

impl Dovecot {
    /// The user that may act as every mailbox.
    pub const MASTER_USER: &'static str = "mailapi";
    /// The master user's password.
    pub const MASTER_PASSWORD: &'static str = "master-secret";
    /// The password of every mailbox.
    pub const PASSWORD: &'static str = "mailbox-secret";

    /// Starts a Dovecot.
    ///
    /// # Panics
    /// When Dovecot is not installed or does not start.
    pub async fn start() -> Self {
        Self::start_with("").await
    }

    /// Starts a Dovecot with other settings. It uses the configuration that the product prints for its
    /// version, mailboxes made by [`Dovecot::put_mailbox`], and no automatic folders.
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

    /// Starts a Dovecot with the dovecot.conf in this directory, which must name this port for IMAP. Only
    /// paths and listeners are changed: it runs in a temporary directory, which also has the sockets for
    /// Postfix.
    ///
    /// # Panics
    /// As [`Dovecot::start`].
    pub async fn start_printed(directory: &Path, imap: SocketAddr) -> Self {
        let mut dovecot = Self::laid_out(imap, Some(directory));
        dovecot.resume().await;
        dovecot
    }

    /// Returns the installed version in the form of `mailapi config dovecot --version`.
    ///
    /// # Panics
    /// When the product does not support the version.
    #[must_use]
    pub fn version() -> &'static str {
        match installed_version() {
            DovecotVersion::V2_3 => "2.3",
            DovecotVersion::V2_4 => "2.4",
        }
    }

    /// Returns whether doveadm over HTTP can flush the authentication cache: the one of 2.4.1 panics.
    ///
    /// # Panics
    /// As [`Dovecot::version`].
    #[must_use]
    pub fn flushes_auth_cache() -> bool {
        installed_version() == DovecotVersion::V2_3
    }

    /// Returns the LMTP socket for Postfix.
    #[must_use]
    pub fn lmtp_socket(&self) -> PathBuf {
        self.path("sockets/dovecot-lmtp")
    }

    fn laid_out(imap: SocketAddr, printed: Option<&Path>) -> Self {
        for file in NEEDED {
            assert!(Path::new(file).exists(), "{file} is missing: these tests need what ./test installs");
        }
        let directory = TempDir::new().expect("a temporary directory");
        // Dovecot's processes run as different users, which all need access.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("its mode is set");
        let [mail, sockets] = ["mail", "sockets"].map(|name| directory.path().join(name));
        for place in [&mail, &sockets] {
            fs::create_dir(place).expect("a directory");
        }
        chown(&mail, Some(MAIL_UID), Some(MAIL_UID)).expect("root can change the mail directory's owner");
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

    /// Returns the address of the IMAP listener.
    #[must_use]
    pub const fn imap(&self) -> SocketAddr {
        self.imap
    }

    /// Returns the id of its main process; `None` if it is not running.
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

    /// Kills it, and waits until its processes have noticed that the main process is gone.
    /// [`Dovecot::resume`] starts it again.
    ///
    /// # Panics
    /// When they do not end.
    pub async fn kill(&mut self) {
        let Some((mut child, _guard)) = self.child.take() else { return };
        let _ = child.kill();
        let _ = child.wait();
        // Orphaned processes keep their sockets and ports for a moment.
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
        let mut child = command.spawn().expect("dovecot starts");
        let guard = Guard::over(child.id().into(), self.directory.path());
        for _ in 0..STARTING.0 {
            let is_there = TcpStream::connect(self.imap).await.is_ok() && TcpStream::connect(self.lmtp).await.is_ok();
            let has_ended = child.try_wait().expect("the process's state can be read").is_some();
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

    /// Stops it and closes its connections; its mail stays.
    pub fn stop(&mut self) {
        let Some((mut child, _guard)) = self.child.take() else { return };
        // The main process stops the others only on SIGTERM, not when it is killed.
        if !signal::send_signal("TERM", &child) {
            let _ = child.kill();
        }
        let _ = child.wait();
    }

    /// Returns its log so far.
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
