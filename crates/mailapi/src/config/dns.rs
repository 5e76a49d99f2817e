//! `[dns]`: name servers for lookups.

use std::net::SocketAddr;

use mailapi_dns::DnsSettings;
use serde::{Deserialize, Serialize};

use super::values::Text;

/// The section.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Dns {
    servers: Vec<Text<SocketAddr>>,
}

impl Dns {
    /// Returns the settings of DNS lookups.
    pub(super) fn settings(&self) -> DnsSettings {
        let servers = self.servers.iter().map(|Text(server)| *server).collect();
        DnsSettings { servers, ..DnsSettings::default() }
    }
}
