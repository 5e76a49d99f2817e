//! A Postfix and a Dovecot that look accounts up in mailapi's database, set up by what mailapi prints for them.

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
use mailapi_model::Secret;
use mailapi_tls::Trust;

use crate::dovecot::installed_version;
use crate::guard::TestDirectory;
use crate::ports::free_port;
use crate::{Dovecot, Postfix, PostfixDelivery, PostfixRecipients, PostfixSettings};

/// Postfix waits for a file to grow older than this before it reads it.
const OLD_ENOUGH: Duration = Duration::from_secs(60);

/// A private Postfix and Dovecot in front of one database. They end when this is dropped, or with the process.
pub struct RealMailServer {
    /// Takes mail and delivers it to Dovecot.
    pub postfix: Postfix,
    /// Keeps mail.
    pub dovecot: Dovecot,
    ports: MailServerPorts,
    _directory: Option<TestDirectory>,
}

/// Where Dovecot is to listen, which stands in what is printed for it.
#[derive(Debug, Clone, Copy)]
pub struct MailServerPorts {
    /// For IMAP.
    pub imap: SocketAddr,
    /// For its administration over HTTP.
    pub doveadm: SocketAddr,
}

impl MailServerPorts {
    /// Ports that nobody listens on at the moment.
    ///
    /// # Panics
    /// When there are none.
    #[must_use]
    pub fn free() -> Self {
        Self { imap: free_port(), doveadm: free_port() }
    }
}

impl RealMailServer {
    /// Who may act as every mailbox.
    pub const MASTER_USER: &'static str = "mailapi";
    /// That user's password.
    pub const MASTER_PASSWORD: &'static str = "master secret";
    /// The key to Dovecot's administration.
    pub const API_KEY: &'static str = "api-key";

    /// Starts both on the views of this database. Mail for other domains goes to `remote`.
    ///
    /// # Panics
    /// When one is not installed, or does not start.
    pub async fn start(database: &LookupDatabase, remote: SocketAddr) -> Self {
        Self::start_with(database, remote, |_| {}).await
    }

    /// The same with other settings of Postfix.
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

    /// Starts both with what was printed for these ports into the directories `dovecot` and `postfix` of `directory`,
    /// which must stay. Postfix's tables are of this kind: `sqlite` or `pgsql`.
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
            aliases: String::new(),
        };
        settings.delivery = PostfixDelivery::Lmtp(dovecot.lmtp_socket());
        change(&mut settings);
        let postfix = Postfix::start(&settings).await;
        Self { postfix, dovecot, ports, _directory: None }
    }

    /// Where Dovecot listens.
    #[must_use]
    pub const fn ports(&self) -> MailServerPorts {
        self.ports
    }

    /// The product's settings for these servers, with its state in this directory.
    ///
    /// # Panics
    /// Never with an address of the loopback.
    #[must_use]
    pub fn settings(&self, state_dir: &Path) -> ExternalSettings {
        let smtp = self.postfix.api();
        let host = |address: SocketAddr| address.ip().to_string();
        let doveadm = format!("http://{}", self.ports.doveadm).parse().expect("an address");
        let config = self.postfix.config_dir().display().to_string();
        let log = LogSettings {
            postqueue: ["postqueue", "-c", &config, "-j"].map(str::to_owned).to_vec(),
            // What is not in the log right away after an answer was never handed over.
            settle_time: Duration::ZERO,
            // The clock of a test does not advance.
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
            bounces: None,
            doveadm: is_administered().then_some(doveadm),
            trust: Trust::System,
        }
    }
}

/// Whether Dovecot's administration is used; with `MAILAPI_TEST_DOVEADM=off` in the environment, mail is removed over
/// IMAP. Dovecot starts a process for each request of its administration, which costs more than the request.
fn is_administered() -> bool {
    #[expect(clippy::disallowed_methods, reason = "on which backend tests run is no configuration of the product")]
    let doveadm = std::env::var("MAILAPI_TEST_DOVEADM").unwrap_or_default();
    doveadm != "off"
}

fn write_all(directory: &Path, name: &str, files: impl FnOnce(&str) -> Vec<PrintedFile>) {
    let place = directory.join(name);
    fs::create_dir(&place).expect("a directory");
    for file in files(place.to_str().expect("a path in UTF-8")) {
        file.write(&place).expect("a file is written");
    }
}

/// Lets the mail servers' own users read their files, as `chgrp` does on a real machine, and makes the files old enough
/// to be trusted at once.
fn for_their_users(directory: &Path) {
    for entry in fs::read_dir(directory).expect("printed files") {
        let path = entry.expect("a directory entry").path();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("a file of ours");
        #[expect(clippy::disallowed_methods, reason = "the age of a file is measured by the machine's clock")]
        let old = SystemTime::now() - 2 * OLD_ENOUGH;
        let file = File::options().write(true).open(&path).expect("a file of ours");
        file.set_times(FileTimes::new().set_modified(old)).expect("the file's time can be set");
    }
}
