//! `[dns]`: whom to ask about names.

use std::net::SocketAddr;

use mailapi_dns::DnsSettings;

use super::mirror::mirror;
use super::values::{HumanDuration, Text};
use super::{ConfigError, at_least_one};

mirror!(
    /// The section.
    Dns of DnsSettings {
        timeout: HumanDuration,
        retries: usize,
        cached_answers: u64,
    } with {
        servers: Vec<Text<SocketAddr>> = Vec::new(),
    }
);

impl Dns {
    /// How names are to be looked up.
    pub(super) fn settings(&self) -> DnsSettings {
        let mut settings = DnsSettings::default();
        self.apply(&mut settings);
        settings.servers = self.servers.iter().map(|Text(server)| *server).collect();
        settings
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least_one("dns.timeout", u64::try_from(self.timeout.0.as_millis()).unwrap_or(u64::MAX))
    }
}
