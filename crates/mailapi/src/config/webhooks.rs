//! `[webhooks]`: receivers of events by HTTP.

use std::net::SocketAddr;

use mailapi_proxy::Network;
use mailapi_service::WebhookSettings;
use serde::{Deserialize, Serialize};

use super::values::Text;

/// The section.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Webhooks {
    /// Networks whose receivers are allowed although they are not public.
    allow_networks: Vec<Text<Network>>,
}

impl Webhooks {
    /// Applies the section. Receivers on this machine are allowed while `listen` serves this machine alone.
    pub(super) fn apply(&self, settings: &mut WebhookSettings, listen: SocketAddr) {
        settings.allow_networks = self.allow_networks.iter().map(|Text(network)| network.net()).collect();
        settings.loopback = listen.ip().to_canonical().is_loopback();
    }
}
