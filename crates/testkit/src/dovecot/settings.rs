//! How a private Dovecot is set up: as the product prints it for the version that is installed, and what tests change.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use mailapi_backend_external::printed::{DovecotConfiguration, DovecotVersion, LookupDatabase};
use mailapi_model::Secret;

use super::{Dovecot, MAIL_UID, PROGRAM};

/// How a private Dovecot differs from what the product prints for it.
#[derive(Debug, Clone, Default)]
pub struct DovecotSettings {
    /// How it keeps mail.
    pub format: DovecotFormat,
    /// A certificate and its key, both PEM files; with them, others than this machine must speak TLS, also on port 993.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Further lines of dovecot.conf, which all versions read. They come last, and what comes last counts.
    pub lines: String,
}

impl From<&str> for DovecotSettings {
    /// With these lines.
    fn from(lines: &str) -> Self {
        Self { lines: lines.to_owned(), ..Self::default() }
    }
}

/// Formats of mailboxes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DovecotFormat {
    /// One file for each message, as the product prints it; [`Dovecot::drop_message`] needs it.
    #[default]
    Maildir,
    /// Dovecot's own: many messages in one file.
    Mdbox,
}

impl DovecotFormat {
    const fn lines(self, version: DovecotVersion) -> &'static str {
        match (self, version) {
            (Self::Maildir, _) => "",
            (Self::Mdbox, DovecotVersion::V2_3) => "mail_location = mdbox:~/mdbox\n",
            (Self::Mdbox, DovecotVersion::V2_4) => "mail_driver = mdbox\nmail_path = ~/mdbox\n",
        }
    }
}

/// The version that is installed.
///
/// # Panics
/// When it is one for which the product prints nothing.
pub(crate) fn installed_version() -> DovecotVersion {
    let output = Command::new(PROGRAM).arg("--version").output().expect("dovecot is run");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    match told.split('.').take(2).collect::<Vec<_>>()[..] {
        ["2", "3"] => DovecotVersion::V2_3,
        ["2", "4"] => DovecotVersion::V2_4,
        _ => panic!("nothing is printed for Dovecot {told}"),
    }
}

/// Writes what the product prints, with accounts in this database, into a directory that Dovecot's users can read.
pub(super) fn print(directory: &Path, imap: SocketAddr, accounts: PathBuf, settings: &DovecotSettings) {
    let certificate = settings.certificate.as_ref();
    let configuration = DovecotConfiguration {
        database: &LookupDatabase::Sqlite(accounts),
        version: installed_version(),
        imap_port: imap.port(),
        master_user: Dovecot::MASTER_USER,
        master_password: Secret::new(Dovecot::MASTER_PASSWORD.to_owned()),
        master_separator: "*",
        doveadm: None,
        certificate: certificate.map(|(certificate, key)| (certificate.as_path(), key.as_path())),
    };
    fs::create_dir(directory).expect("a directory for what is printed");
    for file in configuration.files(directory.to_str().expect("a path in UTF-8")) {
        file.write(directory).expect("a file is written");
        let mode = Permissions::from_mode(0o644);
        fs::set_permissions(directory.join(file.name()), mode).expect("a file of ours");
    }
}

/// What these settings add to what is printed. There are no folders but those that a test makes.
pub(super) fn lines_of(settings: &DovecotSettings) -> String {
    let mut lines = "namespace inbox {\n".to_owned();
    for folder in ["Drafts", "Sent", "Trash", "Junk"] {
        let _ = writeln!(lines, " mailbox {folder} {{\n  auto = no\n }}");
    }
    lines + "}\n" + settings.format.lines(installed_version()) + &settings.lines + "\n"
}

/// Dovecot 2.3 otherwise starts a process for each log-in and waits for the disk, which takes most of the time of tests
/// with many mailboxes. A process of its administration serves one request only: it loses its rights at the first mailbox.
const LASTING_SERVICES: &str = "service imap-login {\n service_count = 0\n process_min_avail = 1\n}\n\
    service imap {\n service_count = 1000\n}\nmail_fsync = never\n";

/// Where a server's files and sockets are, and where it listens besides IMAP.
pub(super) struct Place<'a> {
    pub(super) root: &'a Path,
    pub(super) imap: SocketAddr,
    pub(super) lmtp: SocketAddr,
}

impl Place<'_> {
    /// A configuration that was made for a whole machine, in a directory of its own. Failed log-ins are not delayed, so
    /// that tests need not wait. What comes last counts.
    pub(super) fn adapted(&self, text: &str, more: &str) -> String {
        let (root, imap, lmtp) = (self.root.display(), self.imap.port(), self.lmtp.port());
        let text = text.replace("/var/spool/postfix/private", &format!("{root}/sockets"));
        let (home, services) = match installed_version() {
            DovecotVersion::V2_3 => ("%d/%n", LASTING_SERVICES),
            DovecotVersion::V2_4 => ("%{user | domain}/%{user | username}", ""),
        };
        format!(
            "{text}\nbase_dir = {root}/run\nstate_dir = {root}/state\ninstance_name = mailapi-test-{imap}\n\
             log_path = {root}/log\nlisten = 127.0.0.1\nauth_failure_delay = 0\nmail_uid = {MAIL_UID}\n\
             mail_gid = {MAIL_UID}\nfirst_valid_uid = {MAIL_UID}\nmail_home = {root}/mail/{home}\n\
             service anvil {{\n unix_listener anvil-auth-penalty {{\n  mode = 0\n }}\n}}\n\
             service lmtp {{\n inet_listener lmtp {{\n  port = {lmtp}\n }}\n}}\n\
             protocol lmtp {{\n postmaster_address = postmaster@example.org\n}}\n{services}{more}"
        )
    }
}
