//! A Postfix and a Dovecot that look up accounts in mailapi's database, with the configuration printed by
//! mailapi.

use std::fs::{self, File, FileTimes, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use mailapi_backend_external::ExternalSettings;
use mailapi_backend_external::doveadm::DoveadmSettings;
use mailapi_backend_external::imap_pool::ImapSettings;
use mailapi_backend_external::log_follower::{LogSettings, LogSource};
use mailapi_backend_external::mailboxes::MailboxSettings;
use mailapi_backend_external::printed::{DovecotConfiguration, LookupDatabase, PostfixConfiguration, PrintedFile};
use mailapi_backend_external::search_index::SearchSettings;
use mailapi_backend_external::smtp_pool::SmtpSettings;
use mailapi_files::OpenDirectory;
use mailapi_model::Secret;
use mailapi_tls::Trust;

use crate::dovecot::installed_version;
use crate::guard::TestDirectory;
use crate::ports::free_port;
use crate::{Dovecot, Postfix, PostfixDelivery, PostfixRecipients, PostfixSettings};

/// Postfix reads only files older than this.
const OLD_ENOUGH: Duration = Duration::from_secs(60);

/// A private Postfix and Dovecot with one account database. They stop when this is dropped, or with the
/// process.
pub struct RealMailServer {
    /// Accepts mail and delivers it to Dovecot.
    pub postfix: Postfix,
    /// Stores mail.
    pub dovecot: Dovecot,
    ports: MailServerPorts,
    _directory: Option<TestDirectory>,
}

/// Ports of Dovecot, which are part of its printed configuration.
#[derive(Debug, Clone, Copy)]
pub struct MailServerPorts {
    /// The IMAP port.
    pub imap: SocketAddr,
    /// The port of doveadm over HTTP.
    pub doveadm: SocketAddr,
}

impl MailServerPorts {
    /// Returns unused ports.
    ///
    /// # Panics
    /// When there are none.
    #[must_use]
    pub fn free() -> Self {
        Self { imap: free_port(), doveadm: free_port() }
    }
}

impl RealMailServer {
    /// The user that may act as every mailbox.
    pub const MASTER_USER: &'static str = "mailapi";
    /// The master user's password.
    pub const MASTER_PASSWORD: &'static str = "master secret";
    /// The API key of doveadm.
    pub const API_KEY: &'static str = "api-key";

    /// Starts both with the views of this database. Mail for other domains is sent to `remote`.
    ///
    /// # Panics
    /// When one is not installed, or does not start.
    pub async fn start(database: &LookupDatabase, remote: SocketAddr) -> Self {
        Self::start_with(database, remote, |_| {}).await
    }

    /// Like [`RealMailServer::start`], with other settings of Postfix.
    ///
    /// # Panics
    /// As [`RealMailServer::start`].
    pub async fn start_with(
        database: &LookupDatabase,
        remote: SocketAddr,
        change: impl FnOnce(&mut PostfixSettings),
    ) -> Self {
        let ports = MailServerPorts::free();
        let directory = TestDirectory::new();
        let dovecot = DovecotConfiguration {
            database,
            version: installed_version(),
            imap_port: ports.imap.port(),
            master_user: Self::MASTER_USER,
            master_password: Secret::new(Self::MASTER_PASSWORD.to_owned()),
            master_separator: "*",
            require_app_passwords: false,
            applies_rules: applies_rules(),
            doveadm: Some((ports.doveadm.port(), Secret::new(Self::API_KEY.to_owned()))),
            certificate: None,
        };
        let postfix = PostfixConfiguration { database, smtp_port: 0, syslog_name: "postfix", certificate: None };
        write_all(directory.path(), "dovecot", |place| dovecot.files(place));
        write_all(directory.path(), "postfix", |place| postfix.files(place));
        let kind = postfix.table_kind();
        let mut server = Self::start_printed(directory.path(), ports, kind, remote, change).await;
        server._directory = Some(directory);
        server
    }

    /// Starts both with the configuration printed for these ports into the directories `dovecot` and
    /// `postfix` of `directory`, which must be kept. `kind` is the kind of Postfix's tables: `sqlite` or
    /// `pgsql`.
    ///
    /// # Panics
    /// As [`RealMailServer::start`].
    pub async fn start_printed(
        directory: &Path,
        ports: MailServerPorts,
        kind: &str,
        remote: SocketAddr,
        change: impl FnOnce(&mut PostfixSettings),
    ) -> Self {
        let (for_dovecot, for_postfix) = (directory.join("dovecot"), directory.join("postfix"));
        for place in [directory, &for_dovecot, &for_postfix] {
            fs::set_permissions(place, Permissions::from_mode(0o755)).expect("the directory is opened to others");
        }
        [&for_dovecot, &for_postfix].into_iter().for_each(|place| for_their_users(place));
        let dovecot = Dovecot::start_printed(&for_dovecot, ports.imap).await;
        let mut settings = PostfixSettings::new(&[], remote);
        let table = |name: &str| format!("proxy:{kind}:{}", for_postfix.join(name).display());
        settings.recipients = PostfixRecipients::Tables {
            domains: table("domains.cf"),
            mailboxes: table("mailboxes.cf"),
            aliases: table("aliases.cf"),
        };
        settings.delivery = PostfixDelivery::Lmtp(dovecot.lmtp_socket());
        change(&mut settings);
        let postfix = Postfix::start(&settings).await;
        Self { postfix, dovecot, ports, _directory: None }
    }

    /// Returns the ports of Dovecot.
    #[must_use]
    pub const fn ports(&self) -> MailServerPorts {
        self.ports
    }

    /// Returns the product's settings for these servers, with its state in this directory.
    ///
    /// # Panics
    /// Never for loopback addresses.
    #[must_use]
    pub fn settings(&self, state_dir: &Path) -> ExternalSettings {
        let smtp = self.postfix.api();
        let host = |address: SocketAddr| address.ip().to_string();
        let doveadm = format!("http://{}", self.ports.doveadm).parse().expect("an address");
        let config = self.postfix.config_dir().display().to_string();
        let log = LogSettings {
            postqueue: ["postqueue", "-c", &config, "-j"].map(str::to_owned).to_vec(),
            postsuper: ["postsuper", "-c", &config].map(str::to_owned).to_vec(),
            // Postfix logs before it answers, so a message missing from the log was never accepted.
            settle_time: Duration::ZERO,
            // The clock of a test does not advance by itself.
            clock_tolerance: Duration::MAX,
            ..LogSettings::new(LogSource::file(self.postfix.log()), state_dir.join("log"))
        };
        let mut doveadm = DoveadmSettings::new(doveadm, Secret::new(Self::API_KEY.to_owned()));
        doveadm.flush_auth_cache = Dovecot::flushes_auth_cache();
        ExternalSettings {
            smtp: SmtpSettings::new(host(smtp), smtp.port()),
            imap: ImapSettings::new(
                &host(self.ports.imap),
                self.ports.imap.port(),
                Self::MASTER_USER,
                Secret::new(Self::MASTER_PASSWORD.to_owned()),
            ),
            mailboxes: MailboxSettings::default(),
            search: SearchSettings::new(state_dir.join("search")),
            log: Some(log),
            log_host: None,
            applies_rules: applies_rules(),
            bounces: None,
            doveadm: is_administered().then_some(doveadm),
            trust: Trust::System,
        }
    }
}

/// Returns whether doveadm over HTTP is used. With `MAILAPI_TEST_DOVEADM=off` in the environment, mail is
/// removed over IMAP: Dovecot starts a process for each doveadm request, which costs more than the request.
fn is_administered() -> bool {
    variable("MAILAPI_TEST_DOVEADM") != "off"
}

/// Returns whether Dovecot applies rules. It does with `MAILAPI_TEST_RULES=on` in the environment.
fn applies_rules() -> bool {
    variable("MAILAPI_TEST_RULES") == "on"
}

fn variable(name: &str) -> String {
    #[expect(clippy::disallowed_methods, reason = "the backend of the tests is not a setting of the server")]
    std::env::var(name).unwrap_or_default()
}

fn write_all(directory: &Path, name: &str, files: impl FnOnce(&str) -> Vec<PrintedFile>) {
    let place = directory.join(name);
    fs::create_dir(&place).expect("a directory");
    let opened = OpenDirectory::open(&place).expect("the directory is there");
    for file in files(place.to_str().expect("a path in UTF-8")) {
        file.write(&opened).expect("a file is written");
    }
}

/// Makes files readable for the mail servers' users, as `chgrp` does on a real machine, and old enough for
/// Postfix to trust them at once.
fn for_their_users(directory: &Path) {
    for entry in fs::read_dir(directory).expect("printed files") {
        let path = entry.expect("a directory entry").path();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("permissions can be set");
        #[expect(clippy::disallowed_methods, reason = "file times use the machine's clock")]
        let old = SystemTime::now() - 2 * OLD_ENOUGH;
        let file = File::options().write(true).open(&path).expect("the file can be opened");
        file.set_times(FileTimes::new().set_modified(old)).expect("the file's time can be set");
    }
}
