//! `[mail.external.bounces]`: the mailbox for bounces that arrive as mail.

use mailapi_backend_external::bounces::{BounceKey, BounceLimits, BounceSettings};
use mailapi_model::{EmailAddress, FolderName};
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;
use crate::config::values::Unset;

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BounceKeys {
    mailbox: Unset<EmailAddress>,
    delimiter: char,
}

impl Default for BounceKeys {
    fn default() -> Self {
        Self { mailbox: Unset(None), delimiter: '+' }
    }
}

impl BounceKeys {
    /// Returns the mailbox, if configured.
    pub(super) const fn mailbox(&self) -> Option<&EmailAddress> {
        self.mailbox.0.as_ref()
    }

    pub(super) const fn delimiter(&self) -> char {
        self.delimiter
    }

    pub(super) fn settings(&self, key: BounceKey, limits: BounceLimits) -> Option<BounceSettings> {
        let folder = FolderName::inbox();
        Some(BounceSettings { mailbox: self.mailbox()?.clone(), delimiter: self.delimiter, folder, key, limits })
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |error: String| ConfigError::new(format!("mail.external.bounces: {error}"));
        // The key does not affect whether the address has room for a tag.
        match self.settings(BounceKey::new([0; BounceKey::BYTES]), BounceLimits::default()) {
            Some(settings) => settings.return_addresses().map(drop).map_err(|error| wrong(error.to_string())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_without_room_for_return_addresses_is_refused() {
        let check = |text: &str| toml::from_str::<BounceKeys>(text).unwrap().check();
        let error = |text: &str| check(text).unwrap_err().to_string();
        let long = "mailbox = \"bounces-of-our-newsletters@example.org\"";
        assert!(error(long).contains("at most 15 characters"), "{}", error(long));
        assert!(error("mailbox = \"bounces@example.org\"\ndelimiter = \"@\"").contains("delimiter"));
        check("mailbox = \"bounces@example.org\"\ndelimiter = \"-\"").unwrap();
    }
}
