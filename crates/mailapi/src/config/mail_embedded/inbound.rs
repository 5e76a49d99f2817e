//! `[mail.embedded.inbound]`: checks of mail from outside.

use mailapi_http::Network;
use mailapi_service::mail::{DmarcAction, InboundSettings};
use serde::{Deserialize, Serialize};

use super::super::values::Text;

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Inbound {
    dmarc: DmarcName,
    trusted_networks: Vec<Text<Network>>,
}

/// What happens to mail whose author's domain does not confirm it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DmarcName {
    Off,
    Junk,
    Reject,
}

impl Default for Inbound {
    fn default() -> Self {
        let loopback = ["127.0.0.0/8", "::1/128"];
        let network = |text: &str| Text(text.parse().expect("a network"));
        Self { dmarc: DmarcName::Junk, trusted_networks: loopback.map(network).to_vec() }
    }
}

impl Inbound {
    /// Returns the settings of the checks.
    pub(crate) fn settings(&self) -> InboundSettings {
        InboundSettings {
            dmarc: match self.dmarc {
                DmarcName::Off => DmarcAction::Off,
                DmarcName::Junk => DmarcAction::Junk,
                DmarcName::Reject => DmarcAction::Reject,
            },
            trusted_networks: self.trusted_networks.iter().map(|Text(network)| network.net()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_that_of_the_checks() {
        let (set, expected) = (Inbound::default().settings(), InboundSettings::default());
        assert_eq!((set.dmarc, set.trusted_networks), (expected.dmarc, expected.trusted_networks));
    }
}
