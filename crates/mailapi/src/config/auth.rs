//! `[auth]`: who is an admin, and how log-ins and sessions behave.

use std::collections::HashSet;

use mailapi_model::EmailAddress;
use mailapi_service::Settings;
use serde::{Deserialize, Serialize};

use super::values::{HumanDuration, Text};
use super::{ConfigError, at_least_one};

/// The fewest and the most rounds that SHA-512-crypt knows.
const ROUNDS: std::ops::RangeInclusive<u32> = 1_000..=999_999_999;

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Auth {
    pub(super) admins: Vec<Text<EmailAddress>>,
    session_inactivity: HumanDuration,
    session_lifetime: HumanDuration,
    pub(super) login_attempts: u32,
    pub(super) login_lockout: HumanDuration,
    login_addresses: usize,
    password_rounds: u32,
    concurrent_hashes: usize,
}

impl Default for Auth {
    fn default() -> Self {
        let defaults = Settings::default();
        Self {
            admins: Vec::new(),
            session_inactivity: HumanDuration(defaults.session_inactivity),
            session_lifetime: HumanDuration(defaults.session_lifetime),
            login_attempts: defaults.login_attempts,
            login_lockout: HumanDuration(defaults.login_lockout),
            login_addresses: defaults.login_addresses,
            password_rounds: defaults.password_rounds,
            concurrent_hashes: defaults.concurrent_hashes,
        }
    }
}

impl Auth {
    /// Puts the section's settings into those of the service.
    pub(super) fn apply(&self, settings: &mut Settings) {
        settings.admins = self.admins.iter().map(|Text(admin)| admin.clone()).collect::<HashSet<_>>();
        settings.session_inactivity = self.session_inactivity.0;
        settings.session_lifetime = self.session_lifetime.0;
        settings.login_attempts = self.login_attempts;
        settings.login_lockout = self.login_lockout.0;
        settings.login_addresses = self.login_addresses;
        settings.password_rounds = self.password_rounds;
        settings.concurrent_hashes = self.concurrent_hashes;
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least_one("auth.login_attempts", self.login_attempts.into())?;
        at_least_one("auth.login_addresses", self.login_addresses as u64)?;
        at_least_one("auth.concurrent_hashes", self.concurrent_hashes as u64)?;
        if !ROUNDS.contains(&self.password_rounds) {
            let (least, most) = (ROUNDS.start(), ROUNDS.end());
            return Err(ConfigError::new(format!("auth.password_rounds: must be between {least} and {most}")));
        }
        Ok(())
    }
}
