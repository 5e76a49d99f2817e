//! Setup of a private Dovecot: the configuration printed for the installed version, and changes by tests.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use mailapi_backend_external::printed::{DovecotConfiguration, DovecotVersion, LookupDatabase};
use mailapi_files::OpenDirectory;
use mailapi_model::Secret;

use super::{Dovecot, MAIL_UID, PROGRAM};

/// Changes to the printed configuration.
#[derive(Debug, Clone, Default)]
pub struct DovecotSettings {
    /// The mailbox format.
    pub format: DovecotFormat,
    /// A certificate and its key, both PEM files. With them, remote clients must use TLS, also on port 993.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Further lines of dovecot.conf, valid in all versions. They come last and override earlier ones.
    pub lines: String,
}

impl From<&str> for DovecotSettings {
    /// Settings with only these lines.
    fn from(lines: &str) -> Self {
        Self { lines: lines.to_owned(), ..Self::default() }
    }
}

/// Mailbox formats.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DovecotFormat {
    /// One file for each message, as printed; required by [`Dovecot::drop_message`].
    #[default]
    Maildir,
    /// Dovecot's own format with many messages in one file.
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

/// Returns the installed version.
///
/// # Panics
/// When the product does not support the version.
pub(crate) fn installed_version() -> DovecotVersion {
    let output = Command::new(PROGRAM).arg("--version").output().expect("dovecot starts");
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    match version.split('.').take(2).collect::<Vec<_>>()[..] {
        ["2", "3"] => DovecotVersion::V2_3,
        ["2", "4"] => DovecotVersion::V2_4,
        _ => panic!("unsupported Dovecot version: {version}"),
    }
}

/// Writes the printed configuration, with accounts in this database, into a directory that Dovecot's users
/// can read.
pub(super) fn print(directory: &Path, imap: SocketAddr, accounts: PathBuf, settings: &DovecotSettings) {
    let certificate = settings.certificate.as_ref();
    let configuration = DovecotConfiguration {
        database: &LookupDatabase::Sqlite(accounts),
        version: installed_version(),
        imap_port: imap.port(),
        master_user: Dovecot::MASTER_USER,
        master_password: Secret::new(Dovecot::MASTER_PASSWORD.to_owned()),
        master_separator: "*",
        require_app_passwords: false,
        applies_rules: false,
        doveadm: None,
        certificate: certificate.map(|(certificate, key)| (certificate.as_path(), key.as_path())),
    };
    fs::create_dir(directory).expect("a directory for the printed files");
    let opened = OpenDirectory::open(directory).expect("the directory is there");
    for file in configuration.files(directory.to_str().expect("a path in UTF-8")) {
        file.write(&opened).expect("a file is written");
        let mode = Permissions::from_mode(0o644);
        fs::set_permissions(directory.join(file.name()), mode).expect("permissions can be set");
    }
}

/// Returns the lines that these settings add. Folders are created only by tests.
pub(super) fn lines_of(settings: &DovecotSettings) -> String {
    let mut lines = "namespace inbox {\n".to_owned();
    for folder in ["Drafts", "Sent", "Trash", "Junk"] {
        let _ = writeln!(lines, " mailbox {folder} {{\n  auto = no\n }}");
    }
    lines + "}\n" + settings.format.lines(installed_version()) + &settings.lines + "\n"
}

/// By default Dovecot 2.3 starts a process for each login and waits for the disk, which dominates tests with
/// many mailboxes. Processes of doveadm still serve only one request: they drop their privileges at the first
/// mailbox.
const LASTING_SERVICES: &str = "service imap-login {\n service_count = 0\n process_min_avail = 1\n}\n\
    service imap {\n service_count = 1000\n}\nmail_fsync = never\n";

/// The root of a server's files and sockets, and its ports.
pub(super) struct Place<'a> {
    pub(super) root: &'a Path,
    pub(super) imap: SocketAddr,
    pub(super) lmtp: SocketAddr,
}

impl Place<'_> {
    /// Adapts a configuration for a whole machine to this root; later lines override earlier ones. Failed
    /// logins are not delayed, so that tests need not wait.
    pub(super) fn adapted(&self, text: &str, more: &str) -> String {
        let (root, imap, lmtp) = (self.root.display(), self.imap.port(), self.lmtp.port());
        let text = text.replace("/var/spool/postfix/private", &format!("{root}/sockets"));
        // Machines that run tests need not have the user of the guide.
        let text = text.replace("    mode = 0600\n    user = vmail\n", "    mode = 0666\n");
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
