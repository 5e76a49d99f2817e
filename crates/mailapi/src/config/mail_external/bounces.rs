//! `[mail.external.bounces]`: where bounces go that come back as mail.

use mailapi_backend_external::bounces::{BounceKey, BounceLimits, BounceSettings};
use mailapi_model::{EmailAddress, FolderName};
use serde::{Deserialize, Serialize};

use crate::config::mirror::mirror;
use crate::config::values::{ByteSize, HumanDuration, Unset};
use crate::config::{ConfigError, at_least_one};

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BounceKeys {
    mailbox: Unset<EmailAddress>,
    delimiter: char,
    folder: String,
    limits: BounceLimitKeys,
}

mirror!(
    /// `[mail.external.bounces.limits]`: how much of the mailbox is read, and how often.
    BounceLimitKeys of BounceLimits {
        poll_interval: HumanDuration,
        batch_messages: usize,
        uid_range: u32,
        message_octets: ByteSize,
        message_tries: usize,
        loss_memory: HumanDuration,
        response_characters: usize,
    }
);

impl Default for BounceKeys {
    fn default() -> Self {
        Self {
            mailbox: Unset(None),
            delimiter: '+',
            folder: FolderName::inbox().to_string(),
            limits: BounceLimitKeys::default(),
        }
    }
}

impl BounceKeys {
    /// The mailbox, where there is one.
    pub(super) const fn mailbox(&self) -> Option<&EmailAddress> {
        self.mailbox.0.as_ref()
    }

    pub(super) const fn delimiter(&self) -> char {
        self.delimiter
    }

    pub(super) fn settings(&self, key: BounceKey) -> Option<BounceSettings> {
        let mut limits = BounceLimits::default();
        self.limits.apply(&mut limits);
        let folder = self.folder.parse().ok()?;
        Some(BounceSettings { mailbox: self.mailbox()?.clone(), delimiter: self.delimiter, folder, key, limits })
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least_one("mail.external.bounces.limits.batch_messages", self.limits.batch_messages as u64)?;
        at_least_one("mail.external.bounces.limits.uid_range", self.limits.uid_range.into())?;
        at_least_one("mail.external.bounces.limits.message_octets", self.limits.message_octets.0)?;
        at_least_one("mail.external.bounces.limits.message_tries", self.limits.message_tries as u64)?;
        let wrong = |error: String| ConfigError::new(format!("mail.external.bounces: {error}"));
        self.folder.parse::<FolderName>().map_err(|error| wrong(format!("folder {error}")))?;
        // Whether the address has room for more does not depend on the key.
        match self.settings(BounceKey::new([0; BounceKey::OCTETS])) {
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
        assert!(error("folder = \"a//b\"").contains("folder"));
        check("mailbox = \"bounces@example.org\"\ndelimiter = \"-\"").unwrap();
    }
}
