//! `[advanced]`: settings whose defaults fit most installations. The documented file has an example of when to
//! change each; a value without such an example is a constant of the crate that uses it.

use std::path::Path;
use std::time::Duration;

use mailapi_backend::BufferSettings;
use mailapi_backend_embedded::delivery_agent::DeliveryAgentSettings;
use mailapi_backend_embedded::net::ConnectionLimits;
use mailapi_backend_embedded::{ImapSettings, MessageStoreSettings};
use mailapi_backend_external::imap_pool::ImapSettings as ExternalImapSettings;
use mailapi_backend_external::log_follower::{LogSettings, LogSource};
use mailapi_backend_external::search_index::{IndexUse, SearchSettings};
use mailapi_backend_external::smtp_pool::SmtpSettings;
use mailapi_http::HttpSettings;
use mailapi_model::Secret;
use mailapi_service::Settings;
use mailapi_service::auth::PASSWORD_ROUNDS;
use mailapi_store::postgres::PostgresSettings;
use serde::{Deserialize, Serialize};

use super::mirror::mirror;
use super::values::{ByteSize, HumanDuration};
use super::{ConfigError, at_least_one, longer_than_nothing};

/// The sections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Advanced {
    /// Grace period for requests and deliveries in flight after a signal to stop.
    pub(crate) shutdown_grace: HumanDuration,
    pub(super) http: HttpKeys,
    pub(super) auth: AuthKeys,
    pub(super) postgres: PostgresKeys,
    pub(super) buffer: BufferKeys,
    pub(super) sending: SendingKeys,
    pub(super) delivery: DeliveryKeys,
    pub(super) listeners: ListenerKeys,
    pub(super) imap: ImapKeys,
    pub(super) external_smtp: ExternalSmtpKeys,
    pub(super) external_imap: ExternalImapKeys,
    pub(super) external_log: ExternalLogKeys,
    pub(super) external_search: ExternalSearchKeys,
}

mirror!(
    /// `[advanced.http]`: connections and requests.
    HttpKeys of HttpSettings {
        max_connections: usize,
    }
);

mirror!(
    /// `[advanced.auth]`: passwords.
    AuthKeys of Settings {
        password_rounds: u32,
    }
);

mirror!(
    /// `[advanced.postgres]`: connections to PostgreSQL.
    PostgresKeys of PostgresSettings {
        connections: usize,
    }
);

mirror!(
    /// `[advanced.buffer]`: disk space of messages in transit.
    BufferKeys of BufferSettings as (BufferSettings::new("")) {
        max_disk_bytes: ByteSize,
    }
);

/// `[advanced.sending]`: messages whose submission was interrupted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SendingKeys {
    /// Age at which an interrupted submission is looked up at the mail server, and the time between two searches.
    pub(super) recovery_interval: HumanDuration,
}

mirror!(
    /// `[advanced.delivery]`: the queue of the built-in mail server.
    DeliveryKeys of DeliveryAgentSettings {
        retry_intervals: Vec<HumanDuration>,
        max_connections: usize,
        max_connections_per_destination: usize,
        messages_per_minute_per_destination: u32,
    } with {
        queue_lifetime: HumanDuration = HumanDuration(MessageStoreSettings::default().queue_lifetime),
    }
);

mirror!(
    /// `[advanced.listeners]`: connections to each listener of the built-in mail server.
    ListenerKeys of ConnectionLimits {
        max_connections: usize,
        max_connections_per_client: usize,
    }
);

mirror!(
    /// `[advanced.imap]`: IMAP sessions of the built-in mail server.
    ImapKeys of ImapSettings {
        max_connections_per_user: usize,
    }
);

mirror!(
    /// `[advanced.external_smtp]`: connections to the operator's SMTP server.
    ExternalSmtpKeys of SmtpSettings as (SmtpSettings::new("", 0)) {
        max_connections: usize,
    }
);

mirror!(
    /// `[advanced.external_imap]`: connections to the operator's IMAP server.
    ExternalImapKeys of ExternalImapSettings
        as (ExternalImapSettings::new("", 0, "", Secret::new(String::new())))
    {
        max_connections: usize,
        max_connections_per_mailbox: usize,
    }
);

mirror!(
    /// `[advanced.external_log]`: time limits of Postfix.
    ExternalLogKeys of LogSettings as (LogSettings::new(LogSource::journal(None), "")) {
        settle_time: HumanDuration,
        reception_time: HumanDuration,
        retry_time: HumanDuration,
    }
);

mirror!(
    /// `[advanced.external_search]`: the search index of external mailboxes.
    ExternalSearchKeys of SearchSettings as (SearchSettings::new("")) {
        max_bytes: ByteSize,
    } with {
        index: IndexName = IndexName::Auto,
    }
);

/// When searches use the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum IndexName {
    /// If the IMAP server has no index.
    Auto,
    On,
    Off,
}

impl Default for Advanced {
    fn default() -> Self {
        Self {
            shutdown_grace: HumanDuration(Duration::from_secs(30)),
            http: HttpKeys::default(),
            auth: AuthKeys::default(),
            postgres: PostgresKeys::default(),
            buffer: BufferKeys::default(),
            sending: SendingKeys::default(),
            delivery: DeliveryKeys::default(),
            listeners: ListenerKeys::default(),
            imap: ImapKeys::default(),
            external_smtp: ExternalSmtpKeys::default(),
            external_imap: ExternalImapKeys::default(),
            external_log: ExternalLogKeys::default(),
            external_search: ExternalSearchKeys::default(),
        }
    }
}

impl Default for SendingKeys {
    fn default() -> Self {
        Self { recovery_interval: HumanDuration(Settings::default().pending_grace) }
    }
}

impl Advanced {
    /// Rejects values with which a part of the server cannot work. `max_message_bytes` is the size of the largest
    /// message.
    pub(super) fn check(&self, max_message_bytes: u64) -> Result<(), ConfigError> {
        at_least_one("advanced.http.max_connections", self.http.max_connections as u64)?;
        self.auth.check()?;
        at_least_one("advanced.postgres.connections", self.postgres.connections as u64)?;
        self.buffer.check(max_message_bytes)?;
        longer_than_nothing("advanced.sending.recovery_interval", self.sending.recovery_interval)?;
        self.delivery.check()?;
        for (key, value) in [
            ("listeners.max_connections", self.listeners.max_connections),
            ("listeners.max_connections_per_client", self.listeners.max_connections_per_client),
            ("imap.max_connections_per_user", self.imap.max_connections_per_user),
            ("external_smtp.max_connections", self.external_smtp.max_connections),
            ("external_imap.max_connections", self.external_imap.max_connections),
            ("external_imap.max_connections_per_mailbox", self.external_imap.max_connections_per_mailbox),
        ] {
            at_least_one(&format!("advanced.{key}"), value as u64)?;
        }
        Ok(())
    }
}

impl AuthKeys {
    fn check(&self) -> Result<(), ConfigError> {
        if !PASSWORD_ROUNDS.contains(&self.password_rounds) {
            let (least, most) = (PASSWORD_ROUNDS.start(), PASSWORD_ROUNDS.end());
            return Err(ConfigError::new(format!("advanced.auth.password_rounds: must be between {least} and {most}")));
        }
        Ok(())
    }
}

impl BufferKeys {
    /// Returns the settings of the buffer in the data directory. Mail from outside may use half of the disk, so that
    /// users can always send, but always has room for the largest message.
    pub(super) fn settings(&self, data_dir: &Path, max_message_bytes: u64) -> BufferSettings {
        let mut settings = BufferSettings::new(data_dir);
        self.apply(&mut settings);
        settings.max_inbound_disk_bytes = (settings.max_disk_bytes / 2).max(max_message_bytes);
        settings
    }

    /// Rejects limits that leave no room for the largest message.
    fn check(&self, max_message_bytes: u64) -> Result<(), ConfigError> {
        if self.max_disk_bytes.0 >= max_message_bytes.max(1) {
            return Ok(());
        }
        let why = format!("must be at least limits.max_message_bytes ({max_message_bytes})");
        Err(ConfigError::new(format!("advanced.buffer.max_disk_bytes: {why}")))
    }
}

impl DeliveryKeys {
    fn check(&self) -> Result<(), ConfigError> {
        at_least_one("advanced.delivery.max_connections", self.max_connections as u64)?;
        let each = self.max_connections_per_destination as u64;
        at_least_one("advanced.delivery.max_connections_per_destination", each)?;
        if self.retry_intervals.is_empty() {
            return Err(ConfigError::new("advanced.delivery.retry_intervals: must have at least one interval"));
        }
        Ok(())
    }
}

impl ExternalSearchKeys {
    /// The index's own directory in the data directory.
    const DIRECTORY: &str = "search-index";

    pub(super) fn settings(&self, data_dir: &Path) -> SearchSettings {
        let mut settings = SearchSettings::new(data_dir.join(Self::DIRECTORY));
        self.apply(&mut settings);
        settings.index = match self.index {
            IndexName::Auto => IndexUse::Auto,
            IndexName::On => IndexUse::On,
            IndexName::Off => IndexUse::Off,
        };
        settings
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn check(text: &str) -> Result<(), String> {
        let config = Config::from_layers(Some(("mailapi.toml", text)), &[]).unwrap();
        config.check().map_err(|error| error.to_string())
    }

    #[test]
    fn values_that_stop_a_part_of_the_server_are_refused() {
        let rounds = "advanced.auth.password_rounds: must be between 1000 and 1000000";
        for (key, why) in [
            ("auth.password_rounds = 999", rounds),
            ("auth.password_rounds = 1000001", rounds),
            ("sending.recovery_interval = \"0s\"", "advanced.sending.recovery_interval: must be greater than 0"),
            ("delivery.retry_intervals = []", "advanced.delivery.retry_intervals: must have at least one interval"),
            ("imap.max_connections_per_user = 0", "advanced.imap.max_connections_per_user: must be at least 1"),
            ("postgres.connections = 0", "advanced.postgres.connections: must be at least 1"),
        ] {
            assert_eq!(check(&format!("[advanced]\n{key}\n")), Err(why.to_owned()));
        }
        assert_eq!(check("[advanced]\nauth.password_rounds = 1000000\n"), Ok(()));
    }

    #[test]
    fn a_buffer_without_room_for_the_largest_message_is_refused() {
        let check = |buffer: &str| check(&format!("limits.max_message_bytes = \"10MiB\"\n[advanced.buffer]\n{buffer}"));
        for (buffer, why) in [
            ("max_disk_bytes = 0", "advanced.buffer.max_disk_bytes: must be at least"),
            ("max_disk_bytes = \"9MiB\"", "advanced.buffer.max_disk_bytes: must be at least"),
        ] {
            let error = check(buffer).unwrap_err();
            assert!(error.starts_with(why), "{buffer}: {error}");
        }
        assert_eq!(check("max_disk_bytes = \"10MiB\""), Ok(()));
    }

    #[test]
    fn mail_from_outside_leaves_half_of_the_disk_to_users() {
        let room = |text: &str| {
            let config = Config::from_layers(Some(("mailapi.toml", text)), &[]).unwrap();
            config.buffer(std::path::Path::new("")).max_inbound_disk_bytes
        };
        assert_eq!(room(""), 2 << 30);
        assert_eq!(
            room("limits.max_message_bytes = \"10MiB\"\n[advanced.buffer]\nmax_disk_bytes = \"12MiB\""),
            10 << 20
        );
    }
}
