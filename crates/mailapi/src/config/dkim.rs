//! `[dkim]`: the keys that sign outgoing mail.

use std::time::Duration;

use mailapi_service::Settings;
use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::values::HumanDuration;

/// The shortest age at which a key is replaced. The record of the old key stays for eight days after that, and a domain
/// should not have many of them.
const SHORTEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Dkim {
    /// Age at which a new key is made for one that signs; zero for never.
    rotate_after: HumanDuration,
}

impl Default for Dkim {
    fn default() -> Self {
        Self { rotate_after: HumanDuration(Duration::ZERO) }
    }
}

impl Dkim {
    pub(super) fn apply(&self, settings: &mut Settings) {
        settings.dkim_rotate_after = Some(self.rotate_after.0).filter(|age| !age.is_zero());
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let age = self.rotate_after.0;
        if !age.is_zero() && age < SHORTEST {
            return Err(ConfigError::new("dkim.rotate_after: must be 0s, for never, or at least 30d"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn keys_are_replaced_after_a_month_at_the_earliest() {
        let with = |age: &str| {
            let text = format!("dkim.rotate_after = \"{age}\"\n");
            let config = Config::from_layers(Some(("mailapi.toml", &text)), &[]).unwrap();
            config.check().map(|()| config.service().dkim_rotate_after.map(|age| age.as_secs() / 86_400))
        };
        assert_eq!(with("0s").unwrap(), None);
        assert_eq!(with("90d").unwrap(), Some(90));
        assert_eq!(with("29d").unwrap_err().to_string(), "dkim.rotate_after: must be 0s, for never, or at least 30d");
    }
}
