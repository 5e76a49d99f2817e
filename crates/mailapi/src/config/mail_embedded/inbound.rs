//! `[mail.embedded.inbound]`: checks of mail from outside.

use mailapi_model::DomainName;
use mailapi_proxy::Network;
use mailapi_service::mail::{DmarcAction, InboundSettings, MAX_DNSBL, RspamdAddress};
use serde::{Deserialize, Serialize};

use super::super::values::{Text, Unset};
use super::ConfigError;

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Inbound {
    dmarc: DmarcName,
    trusted_networks: Vec<Text<Network>>,
    dnsbl: Vec<Text<DomainName>>,
    greylist: bool,
    rspamd: Unset<RspamdAddress>,
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
        Self {
            dmarc: DmarcName::Junk,
            trusted_networks: loopback.map(network).to_vec(),
            dnsbl: Vec::new(),
            greylist: false,
            rspamd: Unset(None),
        }
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
            dnsbl: self.dnsbl.iter().map(|Text(list)| list.clone()).collect(),
            greylist: self.greylist,
            rspamd: self.rspamd.0.clone(),
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        match self.dnsbl.len() {
            0..=MAX_DNSBL => Ok(()),
            _ => Err(ConfigError::new(format!("mail.embedded.inbound.dnsbl: at most {MAX_DNSBL} lists"))),
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
        assert_eq!((set.dnsbl, set.greylist, set.rspamd), (expected.dnsbl, expected.greylist, expected.rspamd));
    }

    #[test]
    fn the_number_of_lists_is_limited() {
        let lists = |count: usize| Inbound {
            dnsbl: (0..count).map(|n| Text(format!("l{n}.example").parse().unwrap())).collect(),
            ..Inbound::default()
        };
        assert!(lists(MAX_DNSBL).check().is_ok());
        let refused = lists(MAX_DNSBL + 1).check().unwrap_err().to_string();
        assert_eq!(refused, "mail.embedded.inbound.dnsbl: at most 8 lists");
    }
}
