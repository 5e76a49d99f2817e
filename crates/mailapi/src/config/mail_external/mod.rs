//! `[mail.external.…]`: the operator's own mail server.

mod bounces;
mod log;
mod users;

use std::path::Path;

use mailapi_backend_external::bounces::{BounceKey, BounceLimits, BounceSettings};
use mailapi_backend_external::doveadm::DoveadmSettings;
use mailapi_backend_external::imap_pool::ImapSettings;
use mailapi_backend_external::log_follower::LogSettings;
use mailapi_backend_external::mailboxes::MailboxSettings;
use mailapi_backend_external::smtp_pool::SmtpSettings;
use mailapi_backend_external::{ExternalSettings, TlsMode};
use mailapi_model::{EmailAddress, SecretText};
use mailapi_tls::Trust;
use serde::{Deserialize, Serialize};

use super::advanced::Advanced;
use super::secret::{FilePath, SecretFile, SecretSetting};
use super::values::Unset;
use super::{ConfigError, at_least_one, read_file};
use bounces::BounceKeys;
use log::LogKeys;
pub(crate) use log::LogPlace;
use users::UserKeys;

/// The sections.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct External {
    ca: Unset<FilePath>,
    pub(crate) rules: bool,
    pub(crate) smtp: Smtp,
    pub(crate) imap: Imap,
    log: LogKeys,
    bounces: BounceKeys,
    pub(crate) users: UserKeys,
    doveadm: Doveadm,
}

/// `[mail.external.smtp]`: the server for submission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Smtp {
    pub(crate) host: String,
    pub(crate) port: u16,
    tls: TlsName,
    username: Unset<String>,
    password: SecretSetting,
    password_file: SecretFile,
    hello_name: String,
}

/// `[mail.external.imap]`: the server for mailboxes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Imap {
    pub(crate) host: String,
    pub(crate) port: u16,
    tls: TlsName,
    pub(crate) master_user: String,
    master_password: SecretSetting,
    master_password_file: SecretFile,
    pub(crate) master_separator: String,
}

/// `[mail.external.doveadm]`: Dovecot's administration over HTTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Doveadm {
    url: Unset<DoveadmUrl>,
    api_key: SecretSetting,
    api_key_file: SecretFile,
    flush_auth_cache: bool,
}

/// When the connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TlsName {
    None,
    StartTls,
    Implicit,
}

impl TlsName {
    const fn mode(self) -> TlsMode {
        match self {
            Self::None => TlsMode::None,
            Self::StartTls => TlsMode::StartTls,
            Self::Implicit => TlsMode::Implicit,
        }
    }
}

/// An `http` or `https` URL with a host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DoveadmUrl(String);

impl std::str::FromStr for DoveadmUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        DoveadmSettings::parse_url(text).map(|_| Self(text.to_owned()))
    }
}

impl std::fmt::Display for DoveadmUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Default for Smtp {
    fn default() -> Self {
        const PORT: u16 = 10025;
        Self {
            host: "127.0.0.1".to_owned(),
            port: PORT,
            tls: TlsName::None,
            username: Unset(None),
            password: SecretSetting::default(),
            password_file: Unset(None),
            hello_name: "localhost".to_owned(),
        }
    }
}

impl Default for Imap {
    fn default() -> Self {
        const PORT: u16 = 143;
        Self {
            host: "127.0.0.1".to_owned(),
            port: PORT,
            tls: TlsName::None,
            master_user: "mailapi".to_owned(),
            master_password: SecretSetting::default(),
            master_password_file: Unset(None),
            master_separator: "*".to_owned(),
        }
    }
}

impl Default for Doveadm {
    fn default() -> Self {
        Self { url: Unset(None), api_key: SecretSetting::default(), api_key_file: Unset(None), flush_auth_cache: true }
    }
}

impl External {
    /// Returns the settings of the mail server; reads secrets and certificates. The state of the log follower is in
    /// the data directory.
    pub(crate) fn settings(&self, data_dir: &Path, advanced: &Advanced) -> Result<ExternalSettings, ConfigError> {
        let trust = match &self.ca.0 {
            Some(path) => Trust::Authorities(read_file("mail.external.ca", path)?),
            None => Trust::System,
        };
        Ok(ExternalSettings {
            smtp: self.smtp.settings(advanced)?,
            imap: self.imap.settings(advanced)?,
            mailboxes: MailboxSettings::default(),
            search: advanced.external_search.settings(data_dir),
            log: self.log.settings(data_dir, advanced),
            log_host: self.log.host(),
            // The key of the bounce addresses is in the database, so the caller adds these settings.
            bounces: None,
            doveadm: self.doveadm.settings()?,
            applies_rules: self.rules,
            trust,
        })
    }

    /// Returns the location of the log, if it is followed here.
    pub(crate) fn log_place(&self) -> Option<LogPlace> {
        self.log.place()
    }

    /// Returns the settings of the log follower, if the log is followed here.
    pub(super) fn log_settings(&self, data_dir: &Path, advanced: &Advanced) -> Option<LogSettings> {
        self.log.settings(data_dir, advanced)
    }

    /// Removes the log, for processes that only send queries and must not change the follower's state.
    pub(crate) fn forget_log(&mut self) {
        self.log = LogKeys::default();
    }

    /// Returns whether bounces go to a mailbox of their own.
    pub(crate) const fn collects_bounces(&self) -> bool {
        self.bounces.mailbox().is_some()
    }

    /// Returns the bounce mailbox, and the delimiter after its name in addresses.
    pub(crate) fn bounce_mailbox(&self) -> Option<(&EmailAddress, char)> {
        Some((self.bounces.mailbox()?, self.bounces.delimiter()))
    }

    /// Returns the settings of the bounce mailbox, with this key of its addresses.
    pub(super) fn bounces(&self, key: BounceKey) -> Option<BounceSettings> {
        self.bounces.settings(key, BounceLimits::default())
    }

    /// Returns the first part of the tags of the mail server's log lines.
    pub(crate) fn syslog_name(&self) -> &str {
        self.log.syslog_name()
    }

    /// Reads the key of Dovecot's administration, if configured.
    pub(crate) fn doveadm_key(&self) -> Result<Option<SecretText>, ConfigError> {
        self.doveadm.api_key.resolve("mail.external.doveadm.api_key", &self.doveadm.api_key_file)
    }

    /// Reads the submission password, if configured.
    pub(crate) fn smtp_password(&self) -> Result<Option<SecretText>, ConfigError> {
        self.smtp.password()
    }

    /// Reads the master user's password.
    pub(crate) fn master_password(&self) -> Result<Option<SecretText>, ConfigError> {
        self.imap.password().map(Some)
    }

    /// Returns the port of Dovecot's administration, if configured.
    pub(crate) fn doveadm_port(&self) -> Option<u16> {
        DoveadmSettings::parse_url(&self.doveadm.url.0.as_ref()?.0).ok()?.port_u16()
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.log.check()?;
        self.bounces.check()?;
        self.users.check()?;
        let has_password = self.smtp.password.is_set() || self.smtp.password_file.0.is_some();
        if self.smtp.username.0.is_some() != has_password {
            return Err(ConfigError::new("mail.external.smtp.username and password: set both or none"));
        }
        let has_key = self.doveadm.api_key.is_set() || self.doveadm.api_key_file.0.is_some();
        if self.doveadm.url.0.is_some() != has_key {
            return Err(ConfigError::new("mail.external.doveadm.url and api_key: set both or none"));
        }
        if !self.imap.master_password.is_set() && self.imap.master_password_file.0.is_none() {
            return Err(ConfigError::new("mail.external.imap.master_password: missing"));
        }
        at_least_one("mail.external.imap.master_separator", self.imap.master_separator.len() as u64)
    }
}

impl Smtp {
    /// Reads the user's password.
    fn password(&self) -> Result<Option<SecretText>, ConfigError> {
        self.password.resolve("mail.external.smtp.password", &self.password_file)
    }

    fn settings(&self, advanced: &Advanced) -> Result<SmtpSettings, ConfigError> {
        let mut settings = SmtpSettings::new(self.host.clone(), self.port);
        advanced.external_smtp.apply(&mut settings);
        settings.tls = self.tls.mode();
        settings.hello_name.clone_from(&self.hello_name);
        settings.username.clone_from(&self.username.0);
        if let Some(password) = self.password()? {
            settings.password = password.into();
        }
        Ok(settings)
    }
}

impl Imap {
    /// Reads the master user's password.
    pub(crate) fn password(&self) -> Result<SecretText, ConfigError> {
        let password =
            self.master_password.resolve("mail.external.imap.master_password", &self.master_password_file)?;
        password.ok_or_else(|| ConfigError::new("mail.external.imap.master_password: missing"))
    }

    fn settings(&self, advanced: &Advanced) -> Result<ImapSettings, ConfigError> {
        let mut settings = ImapSettings::new(&self.host, self.port, &self.master_user, self.password()?);
        advanced.external_imap.apply(&mut settings);
        settings.tls = self.tls.mode();
        settings.master_separator.clone_from(&self.master_separator);
        Ok(settings)
    }
}

impl Doveadm {
    fn settings(&self) -> Result<Option<DoveadmSettings>, ConfigError> {
        let Some(DoveadmUrl(url)) = &self.url.0 else { return Ok(None) };
        let url = DoveadmSettings::parse_url(url)
            .map_err(|error| ConfigError::new(format!("mail.external.doveadm.url: {error}")))?;
        let Some(key) = self.api_key.resolve("mail.external.doveadm.api_key", &self.api_key_file)? else {
            return Ok(None);
        };
        let mut settings = DoveadmSettings::new(url, key);
        settings.flush_auth_cache = self.flush_auth_cache;
        Ok(Some(settings))
    }
}
