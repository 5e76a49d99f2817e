//! `[dns]`: name servers for lookups.

use std::net::SocketAddr;

use mailapi_dns::DnsSettings;
use serde::{Deserialize, Serialize};

use super::values::Text;

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Dns {
    servers: Vec<Text<SocketAddr>>,
    dnssec: bool,
}

impl Default for Dns {
    fn default() -> Self {
        Self { servers: Vec::new(), dnssec: DnsSettings::default().dnssec }
    }
}

impl Dns {
    /// Returns the settings of DNS lookups.
    pub(super) fn settings(&self) -> DnsSettings {
        let servers = self.servers.iter().map(|Text(server)| *server).collect();
        DnsSettings { servers, dnssec: self.dnssec, ..DnsSettings::default() }
    }
}
