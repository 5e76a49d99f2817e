//! The configuration: one file per section. Operators' files depend on the names of the keys.

mod advanced;
mod auth;
mod database;
mod dkim;
mod dns;
pub(crate) mod environment;
mod events;
mod former;
mod http;
mod keys;
mod limits;
mod load;
mod log;
mod lookup;
mod mail;
mod mail_embedded;
mod mail_external;
mod metrics;
mod mirror;
#[cfg(test)]
mod reference;
mod secret;
mod security;
mod tls;
mod values;
mod webhooks;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mailapi_acme::AcmeSettings;
use mailapi_backend::BufferSettings;
use mailapi_backend_embedded::delivery_agent::DeliveryAgentSettings;
use mailapi_backend_embedded::{ListenAddresses, ListenerSettings, MessageStoreSettings};
use mailapi_backend_external::ExternalSettings;
use mailapi_backend_external::bounces::{BounceKey, BounceSettings};
use mailapi_backend_external::log_follower::LogSettings;
use mailapi_dns::DnsSettings;
use mailapi_http::HttpSettings;
use mailapi_model::DomainName;
use mailapi_proxy::TrustedProxy;
use mailapi_service::{MailPrograms, Settings, is_local_name};
use mailapi_store::postgres::PostgresSettings;
use mailapi_tls::{ServerTls, Trust};
use serde::{Deserialize, Serialize};

use advanced::Advanced;
pub(crate) use database::{Database, DatabasePlace};
pub(crate) use log::{Log, LogFormat};
pub(crate) use mail_external::LogPlace;
pub(crate) use tls::{CertificateFiles, TlsMode};
pub(crate) use values::ByteSize;
pub(crate) use values::ListenAddress;
use values::{HumanDuration, Text};

use crate::named_file;

/// All settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Config {
    /// File that the settings were read from.
    #[serde(skip)]
    file: Option<PathBuf>,
    /// One warning for each former setting in use.
    #[serde(skip)]
    warnings: Vec<String>,
    /// Directory of the database and all other durable state; relative to the working directory.
    pub(crate) data_dir: PathBuf,
    /// Proxies in front of any listener.
    trusted_proxies: Vec<Text<TrustedProxy>>,
    pub(crate) log: log::Log,
    pub(crate) http: http::Http,
    pub(crate) tls: tls::Tls,
    pub(crate) database: Database,
    pub(crate) auth: auth::Auth,
    pub(crate) limits: limits::Limits,
    pub(crate) mail: mail::Mail,
    pub(crate) dns: dns::Dns,
    dkim: dkim::Dkim,
    security: security::Security,
    pub(crate) webhooks: webhooks::Webhooks,
    pub(crate) metrics: metrics::Metrics,
    pub(crate) events: events::Events,
    pub(crate) advanced: Advanced,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            file: None,
            warnings: Vec::new(),
            data_dir: PathBuf::from("mailapi-data"),
            trusted_proxies: Vec::new(),
            log: log::Log::default(),
            http: http::Http::default(),
            tls: tls::Tls::default(),
            database: Database::default(),
            auth: auth::Auth::default(),
            limits: limits::Limits::default(),
            mail: mail::Mail::default(),
            dns: dns::Dns::default(),
            dkim: dkim::Dkim::default(),
            security: security::Security::default(),
            webhooks: webhooks::Webhooks::default(),
            metrics: metrics::Metrics::default(),
            events: events::Events::default(),
            advanced: Advanced::default(),
        }
    }
}

impl Config {
    /// Rejects settings that contradict each other, and those that this version does not support.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        self.log.check()?;
        self.http.check()?;
        self.database.check()?;
        self.auth.check()?;
        self.limits.check()?;
        self.events.check()?;
        self.dkim.check()?;
        self.mail.check()?;
        self.tls.check(&self.certificate_names(), &self.listeners_with_tls())?;
        self.advanced.check(self.limits.max_message_bytes.0)
    }

    /// Reads every file that the settings name, so that errors appear before the start.
    pub(crate) fn check_files(&self) -> Result<(), ConfigError> {
        self.server_tls()?;
        self.dns()?;
        if self.is_external() {
            self.external(&self.data_dir)?;
            return Ok(());
        }
        self.delivery_agent()?;
        Ok(())
    }

    /// Names the file and the data directory, so that operators can see which ones are used.
    pub(crate) fn origin(&self) -> String {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let file = match &self.file {
            Some(file) => format!("settings from {}", absolute(file).display()),
            None => "settings from no file".to_owned(),
        };
        let data = absolute(&self.data_dir);
        let missing = if data.exists() { "" } else { ", which does not exist" };
        format!("{file}, data in {}{missing}", data.display())
    }

    /// Returns a warning for each setting that was renamed or is fixed.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the settings of the service.
    pub(crate) fn service(&self) -> Settings {
        let mut settings = Settings::default();
        self.auth.apply(&mut settings);
        self.limits.apply(&mut settings);
        self.events.apply(&mut settings);
        self.dkim.apply(&mut settings);
        self.security.apply(&mut settings);
        self.advanced.auth.apply(&mut settings);
        settings.mail_host = self.mail_host();
        // In front of another server, mailapi removes no forged results.
        settings.results_checker = (!self.is_external()).then(|| self.mail.embedded.hostname().to_owned());
        settings.mail_programs = self.mail_programs();
        settings.web_host = self.web_host();
        settings.inbound = self.mail.embedded.inbound.settings();
        settings.admins = self.auth.admins().collect();
        settings.draft = self.limits.draft();
        settings.pending_grace = self.recovery_interval();
        self.webhooks.apply(&mut settings.webhooks, self.http.listen.0);
        settings
    }

    /// Returns the public name of the mail server, for DNS records. Unless it is set, it is the name by which mailapi
    /// finds the operator's own server, if other servers can find that name too.
    pub(crate) fn mail_host(&self) -> String {
        let name = self.mail.embedded.hostname();
        if !self.is_external() || !is_local_name(name) {
            return name.to_owned();
        }
        let known: Option<DomainName> = self.mail.external.smtp.host.parse().ok();
        let known = known.filter(|host| !is_local_name(host.as_str()));
        known.map_or_else(|| name.to_owned(), |host| host.to_string())
    }

    /// Returns the host by which other machines reach the API by HTTPS at port 443: that of the public URL, or the mail
    /// server if this server has that port itself.
    fn web_host(&self) -> Option<String> {
        let own = || self.http.has_public_https().then(|| self.mail_host());
        self.http.host_of_url().or_else(own).filter(|host| !is_local_name(host))
    }

    /// Returns where mail programs on other machines log in.
    fn mail_programs(&self) -> MailPrograms {
        match self.is_external() {
            true => MailPrograms::Elsewhere,
            false => self.mail.embedded.mail_programs(self.tls.is_on()),
        }
    }

    /// Returns the age at which an interrupted submission is looked up, and the time between two searches.
    pub(crate) const fn recovery_interval(&self) -> Duration {
        self.advanced.sending.recovery_interval.0
    }

    /// Returns the limits of memory and disk for messages in transit.
    pub(crate) fn buffer(&self, data_dir: &Path) -> BufferSettings {
        self.advanced.buffer.settings(data_dir, self.limits.max_message_bytes.0)
    }

    /// Returns the settings of the PostgreSQL engine.
    pub(crate) fn postgres(&self) -> PostgresSettings {
        let mut settings = PostgresSettings::default();
        self.advanced.postgres.apply(&mut settings);
        settings
    }

    /// Returns the settings of the HTTP server.
    pub(crate) fn http(&self) -> HttpSettings {
        let mut settings = self.http.settings(&self.limits, &self.advanced);
        settings.access_log = self.log.access.0;
        settings.trusted_proxies = self.trusted_proxies().iter().map(TrustedProxy::network).collect();
        settings
    }

    /// Returns the proxies in front of the listeners.
    pub(crate) fn trusted_proxies(&self) -> Vec<TrustedProxy> {
        self.trusted_proxies.iter().map(|Text(proxy)| proxy.clone()).collect()
    }

    /// Returns the settings of the message store.
    pub(crate) fn message_store(&self) -> MessageStoreSettings {
        self.mail.embedded.message_store(self.auth.admins(), &self.limits, &self.advanced)
    }

    /// Returns the settings of the embedded mail server's listeners, without a certificate.
    pub(crate) fn listeners(&self) -> ListenerSettings {
        let listeners = self.mail.embedded.listeners(self.auth.admins(), &self.advanced);
        ListenerSettings { trusted_proxies: self.trusted_proxies(), ..listeners }
    }

    /// Returns the certificate of all listeners, if they offer TLS; reads it if it is in files.
    pub(crate) fn server_tls(&self) -> Result<Option<ServerTls>, ConfigError> {
        self.tls.server()
    }

    /// Reads the certificate and the key from their files, if they are in use.
    pub(crate) fn certificate_files(&self) -> Result<Option<CertificateFiles>, ConfigError> {
        self.tls.files()
    }

    /// Returns the names that the certificate is for: of the built-in mail server, and of the API if it has HTTPS.
    pub(crate) fn certificate_names(&self) -> Vec<String> {
        let mail = (!self.is_external()).then(|| self.mail.embedded.hostname().to_owned());
        let api = self.http.host_of_https().filter(|api| mail.as_ref() != Some(api));
        mail.into_iter().chain(api).collect()
    }

    /// Returns the settings of the ACME client; `None` if the certificate comes from elsewhere.
    pub(crate) fn acme(&self, data_dir: &Path) -> Option<AcmeSettings> {
        (self.tls.mode() == TlsMode::Acme).then(|| AcmeSettings {
            directory: self.tls.directory().to_owned(),
            names: self.certificate_names(),
            domain: None,
            data_dir: data_dir.to_owned(),
            has_https: self.http.tls_listen.0.is_some(),
            trust: Trust::System,
        })
    }

    /// Returns the keys of the listeners that begin with TLS, and whether each is on.
    fn listeners_with_tls(&self) -> [(&'static str, bool); 3] {
        let mail = if self.is_external() { ListenAddresses::default() } else { self.mail.embedded.listen() };
        [
            ("mail.embedded.submissions_listen", mail.submissions.is_some()),
            ("mail.embedded.imaps_listen", mail.imaps.is_some()),
            ("http.tls_listen", self.http.tls_listen.0.is_some()),
        ]
    }

    /// Returns the settings of the delivery agent; reads the relay's secrets.
    pub(crate) fn delivery_agent(&self) -> Result<DeliveryAgentSettings, ConfigError> {
        self.mail.embedded.delivery_agent(&self.advanced)
    }

    /// Returns the settings of the external mail server; reads its secrets and certificates.
    pub(crate) fn external(&self, data_dir: &Path) -> Result<ExternalSettings, ConfigError> {
        self.mail.external.settings(data_dir, &self.advanced)
    }

    /// Returns the settings of the log follower, if the log is followed here.
    pub(crate) fn log_follower(&self, data_dir: &Path) -> Option<LogSettings> {
        self.mail.external.log_settings(data_dir, &self.advanced)
    }

    /// Returns the settings of the bounce mailbox, with this key of its addresses.
    pub(crate) fn bounces(&self, key: BounceKey) -> Option<BounceSettings> {
        self.mail.external.bounces(key)
    }

    /// Returns the key and address of a listener that other machines can reach: of the built-in mail server, or of
    /// the API in front of it.
    pub(crate) fn public_listener(&self) -> Option<(&'static str, SocketAddr)> {
        if self.is_external() {
            return None;
        }
        let mail = self.mail.embedded.listen();
        let listeners = [
            ("mail.embedded.smtp_listen", mail.smtp),
            ("mail.embedded.submission_listen", mail.submission),
            ("mail.embedded.submissions_listen", mail.submissions),
            ("mail.embedded.imap_listen", mail.imap),
            ("mail.embedded.imaps_listen", mail.imaps),
            ("http.listen", Some(self.http.listen.0)),
            ("http.tls_listen", self.http.tls_listen.0.map(|listen| listen.0)),
        ];
        let mut listeners = listeners.into_iter().filter_map(|(key, address)| Some((key, address?)));
        listeners.find(|(_, address)| is_public(*address))
    }

    /// Returns whether the mail server is the operator's own.
    pub(crate) fn is_external(&self) -> bool {
        self.mail.backend == mail::BackendName::External
    }

    /// Returns the settings of DNS lookups; reads the keys of the root if a file has them.
    pub(crate) fn dns(&self) -> Result<DnsSettings, ConfigError> {
        self.dns.settings()
    }

    /// Formats the effective settings as a TOML file; secrets are redacted.
    pub(crate) fn to_toml(&self) -> String {
        toml::to_string(self).expect("every setting is a TOML value")
    }
}

/// Whether other machines can reach a listener at the address.
fn is_public(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

/// Rejects zero for a limit that would stop all work.
fn at_least_one(key: &str, value: u64) -> Result<(), ConfigError> {
    if value == 0 { Err(ConfigError::new(format!("{key}: must be at least 1"))) } else { Ok(()) }
}

/// Rejects a duration of zero, which would end before any work.
fn longer_than_nothing(key: &str, HumanDuration(duration): HumanDuration) -> Result<(), ConfigError> {
    match duration.is_zero() {
        true => Err(ConfigError::new(format!("{key}: must be greater than 0"))),
        false => Ok(()),
    }
}

/// Reads the file that the setting `key` names.
fn read_file(key: &str, path: &secret::FilePath) -> Result<Vec<u8>, ConfigError> {
    let cannot = |error| ConfigError::new(format!("{key}: {} cannot be read: {error}", path.0.display()));
    named_file::read(&path.0).map_err(cannot)
}

/// Configuration error, in one line that names the place.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ConfigError(String);

impl ConfigError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// The file that documents every setting.
#[cfg(test)]
const DOCUMENTED: &str = include_str!("../../../../config/mailapi.default.toml");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_file_has_every_key_with_its_default() {
        let documented: toml::Table = DOCUMENTED.parse().unwrap();
        assert_eq!(key_paths(&documented), key_paths(&Config::default().to_table()));
        let read = Config::from_layers(Some(("mailapi.default.toml", DOCUMENTED)), &[]).unwrap().to_toml();
        let wrong = |(read, default): (&str, &str)| (read != default).then(|| format!("{read} is now {default}"));
        let wrong: Vec<_> = read.lines().zip(Config::default().to_toml().lines()).filter_map(wrong).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn the_defaults_pass_their_own_check_and_can_be_read_back() {
        Config::default().check().unwrap();
        let printed = Config::default().to_toml();
        assert_eq!(Config::from_layers(Some(("printed", &printed)), &[]).unwrap(), Config::default());
    }

    #[test]
    fn the_defaults_are_those_of_the_crates_that_they_are_for() {
        let config = Config::default();
        let shown = |settings: &dyn std::fmt::Debug| format!("{settings:?}");
        assert_eq!(shown(&config.service()), shown(&Settings::default()));
        assert_eq!(shown(&config.http()), shown(&HttpSettings::default()));
        let postmasters = ListenerSettings::new("localhost").postmasters;
        let message_store = MessageStoreSettings { postmasters, ..MessageStoreSettings::default() };
        assert_eq!(shown(&config.message_store()), shown(&message_store));
        assert_eq!(shown(&config.dns().unwrap()), shown(&DnsSettings::default()));
        assert_eq!(shown(&config.postgres()), shown(&PostgresSettings::default()));
        // Both sides use one size: the mail server writes delivery reports in batches, and the service reads them.
        assert_eq!(Settings::default().feed_batch, MessageStoreSettings::default().feed_batch);
        // One grace period applies to all work in flight, instead of the default of each crate.
        let grace = config.advanced.shutdown_grace.0;
        let courier = DeliveryAgentSettings { grace, ..DeliveryAgentSettings::default() };
        assert_eq!(shown(&config.delivery_agent().unwrap()), shown(&courier));
        let mut listeners = ListenerSettings::new("localhost");
        listeners.smtp_connections.grace = grace;
        listeners.submission_connections.grace = grace;
        listeners.imap_connections.grace = grace;
        assert_eq!(shown(&config.listeners()), shown(&listeners));
    }

    #[test]
    fn admins_get_the_postmasters_mail_by_default() {
        let postmasters = |text: &str| -> Vec<String> {
            let config = Config::from_layers(Some(("mailapi.toml", text)), &[]).unwrap();
            config.listeners().postmasters.iter().map(ToString::to_string).collect()
        };
        let admins = "[auth]\nadmins = [\"ann@example.org\"]\n[mail.embedded]\nhostname = \"mx.example.org\"\n";
        assert_eq!(postmasters(admins), ["postmaster@mx.example.org", "ann@example.org"]);
        assert_eq!(
            postmasters(&format!("{admins}postmaster = \"bob@example.org\"")),
            ["bob@example.org", "postmaster@mx.example.org", "ann@example.org"]
        );
    }

    #[test]
    fn mail_programs_find_only_listeners_that_let_them_in() {
        let certificate = "[tls]\ncert = \"a.pem\"\nkey = \"a.key\"\n";
        let programs = |text: &str| {
            let text = format!("[mail.embedded]\n{text}");
            Config::from_layers(Some(("mailapi.toml", &text)), &[]).unwrap().service().mail_programs
        };
        let public = "submission_listen = \"0.0.0.0:587\"\nimap_listen = \"[::]:143\"\n";
        let none = MailPrograms::NONE;
        assert_eq!(programs(certificate), none, "on loopback addresses");
        assert_eq!(programs(public), none, "without TLS, passwords are refused");
        let both = MailPrograms::BuiltIn { submission: Some(587), submissions: None, imap: Some(143), imaps: None };
        assert_eq!(programs(&format!("{public}{certificate}")), both);
        let sending = "submission_listen = \"192.0.2.1:2587\"\nimap_listen = \"\"\n";
        let sending = programs(&format!("{sending}{certificate}"));
        let submission = Some(2587);
        assert_eq!(sending, MailPrograms::BuiltIn { submission, submissions: None, imap: None, imaps: None });
        let encrypted = "submission_listen = \"\"\nsubmissions_listen = \"[::]:465\"\nimaps_listen = \"[::]:993\"\n";
        let encrypted = programs(&format!("{encrypted}{certificate}"));
        let (submissions, imaps) = (Some(465), Some(993));
        assert_eq!(encrypted, MailPrograms::BuiltIn { submission: None, submissions, imap: None, imaps });
    }

    #[test]
    fn the_name_of_postfix_is_the_one_that_others_can_find() {
        let host = |hostname: &str, postfix: &str| {
            let text = format!(
                "[mail]\nbackend = \"external\"\n[mail.embedded]\nhostname = \"{hostname}\"\n\
                 [mail.external.smtp]\nhost = \"{postfix}\"\n"
            );
            let settings = Config::from_layers(Some(("mailapi.toml", &text)), &[]).unwrap().service();
            assert_eq!(settings.mail_programs, MailPrograms::Elsewhere);
            settings.mail_host
        };
        assert_eq!(host("mx.example.org", "mail.example.net"), "mx.example.org");
        assert_eq!(host("localhost", "mail.example.net"), "mail.example.net");
        for unusable in ["127.0.0.1", "2001:db8::1", "postfix", "postfix.mail.svc.cluster.local", "no name;"] {
            assert_eq!(host("localhost", unusable), "localhost");
        }
    }

    #[test]
    fn what_this_version_cannot_do_is_refused() {
        for (text, why) in [
            ("[mail]\nbackend = \"external\"", "mail.external.imap.master_password: missing"),
            (
                "[mail]\nbackend = \"external\"\n[mail.external]\nlog = { path = \"a\", journal = true }\n",
                "mail.external.log.path and journal: set one of them",
            ),
            (
                "[mail]\nbackend = \"external\"\n[mail.external]\nlog = { journal_directory = \"a\" }\n",
                "mail.external.log.journal_directory: set journal = true with it",
            ),
            (
                "[database]\nurl = \"mysql://db/mail\"",
                "database.url: invalid; leave it empty, or write sqlite:PATH or postgres://USER@HOST/DATABASE",
            ),
        ] {
            let config = Config::from_layers(Some(("mailapi.toml", text)), &[]).unwrap();
            assert_eq!(config.check().unwrap_err().to_string(), why);
        }
    }

    fn key_paths(table: &toml::Table) -> Vec<String> {
        let inner = |(name, value): (&String, &toml::Value)| match value {
            toml::Value::Table(table) if !table.is_empty() => {
                key_paths(table).into_iter().map(|path| format!("{name}.{path}")).collect()
            }
            _ => vec![name.clone()],
        };
        table.iter().flat_map(inner).collect()
    }
}
