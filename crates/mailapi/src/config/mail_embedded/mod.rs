//! `[mail.embedded]`: the built-in mail server.

mod inbound;
mod relay;

use std::net::SocketAddr;

use mailapi_backend_embedded::delivery_agent::DeliveryAgentSettings;
use mailapi_backend_embedded::net::ConnectionLimits;
use mailapi_backend_embedded::{ListenAddresses, ListenerSettings, MessageStoreSettings, postmaster_at};
use mailapi_model::{DomainName, EmailAddress};
use mailapi_service::MailPrograms;
use serde::{Deserialize, Serialize};

use super::advanced::Advanced;
use super::limits::Limits;
use super::secret::{FilePath, SecretFile, SecretSetting};
use super::values::{ListenAddress, Text, Unset};
use super::{ConfigError, is_public};
use inbound::Inbound;
use relay::{RelayAddress, RelayTlsName};

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Embedded {
    hostname: Text<DomainName>,
    postmaster: Unset<EmailAddress>,
    recipient_delimiter: Unset<char>,
    smtp_listen: Unset<ListenAddress>,
    submission_listen: Unset<ListenAddress>,
    submissions_listen: Unset<ListenAddress>,
    imap_listen: Unset<ListenAddress>,
    imaps_listen: Unset<ListenAddress>,
    relay: Unset<RelayAddress>,
    relay_tls: RelayTlsName,
    relay_ca: Unset<FilePath>,
    relay_user: Unset<String>,
    relay_password: SecretSetting,
    relay_password_file: SecretFile,
    // A table comes after the values of its section.
    pub(crate) inbound: Inbound,
}

impl Default for Embedded {
    fn default() -> Self {
        let loopback = |port| Unset(Some(ListenAddress(SocketAddr::from(([127, 0, 0, 1], port)))));
        let hostname = "localhost".parse().expect("localhost is a name");
        Self {
            hostname: Text(hostname),
            postmaster: Unset(None),
            recipient_delimiter: Unset(MessageStoreSettings::default().recipient_delimiter),
            smtp_listen: loopback(2525),
            submission_listen: loopback(2587),
            submissions_listen: Unset(None),
            imap_listen: loopback(2143),
            imaps_listen: Unset(None),
            relay: Unset(None),
            relay_tls: RelayTlsName::WhenOffered,
            relay_ca: Unset(None),
            relay_user: Unset(None),
            relay_password: SecretSetting::default(),
            relay_password_file: Unset(None),
            inbound: Inbound::default(),
        }
    }
}

impl Embedded {
    /// Returns the name of the mail server.
    pub(crate) fn hostname(&self) -> &str {
        self.hostname.0.as_str()
    }

    /// Returns the addresses of the listeners.
    pub(crate) fn listen(&self) -> ListenAddresses {
        let address = |listen: &Unset<ListenAddress>| listen.0.map(|ListenAddress(address)| address);
        ListenAddresses {
            smtp: address(&self.smtp_listen),
            submission: address(&self.submission_listen),
            submissions: address(&self.submissions_listen),
            imap: address(&self.imap_listen),
            imaps: address(&self.imaps_listen),
        }
    }

    /// Returns the ports at which mail programs on other machines log in. Without a certificate there are none, since
    /// the listeners then refuse passwords from other machines.
    pub(super) fn mail_programs(&self, has_tls: bool) -> MailPrograms {
        let addresses = self.listen();
        // The system chooses another port than 0 at each start.
        let reached = |address: &SocketAddr| has_tls && is_public(*address) && address.port() != 0;
        let port = |address: Option<SocketAddr>| address.filter(reached).map(|address| address.port());
        MailPrograms::BuiltIn {
            submission: port(addresses.submission),
            submissions: port(addresses.submissions),
            imap: port(addresses.imap),
            imaps: port(addresses.imaps),
        }
    }

    /// Returns the settings of the listeners, without a certificate. The `admins` receive the postmaster's mail if no
    /// mailbox does.
    pub(super) fn listeners(
        &self,
        admins: impl Iterator<Item = EmailAddress>,
        advanced: &Advanced,
    ) -> ListenerSettings {
        let mut settings = ListenerSettings::new(self.hostname());
        advanced.imap.apply(&mut settings.imap);
        let mut connections = ConnectionLimits { grace: advanced.shutdown_grace.0, ..ConnectionLimits::default() };
        advanced.listeners.apply(&mut connections);
        settings.smtp_connections = connections.clone();
        settings.submission_connections = connections.clone();
        settings.imap_connections = connections;
        settings.postmasters = self.postmasters(admins);
        settings
    }

    /// Returns the recipients of the postmaster's mail; the first one with a mailbox gets it.
    fn postmasters(&self, admins: impl Iterator<Item = EmailAddress>) -> Vec<EmailAddress> {
        self.postmaster.0.iter().cloned().chain(postmaster_at(self.hostname())).chain(admins).collect()
    }

    /// Returns the settings of the delivery agent; reads the relay's secrets.
    pub(super) fn delivery_agent(&self, advanced: &Advanced) -> Result<DeliveryAgentSettings, ConfigError> {
        let mut settings =
            DeliveryAgentSettings { grace: advanced.shutdown_grace.0, ..DeliveryAgentSettings::default() };
        advanced.delivery.apply(&mut settings);
        settings.relay = self.relay()?;
        Ok(settings)
    }

    /// Returns the settings of the message store; `admins` as for the listeners.
    pub(super) fn message_store(
        &self,
        admins: impl Iterator<Item = EmailAddress>,
        limits: &Limits,
        advanced: &Advanced,
    ) -> MessageStoreSettings {
        MessageStoreSettings {
            postmasters: self.postmasters(admins),
            max_message_bytes: limits.max_message_bytes.as_usize(),
            recipient_delimiter: self.recipient_delimiter.0,
            queue_lifetime: advanced.delivery.queue_lifetime.0,
            ..MessageStoreSettings::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.inbound.check()?;
        self.check_relay()
    }
}
