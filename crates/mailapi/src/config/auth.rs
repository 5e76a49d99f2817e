//! `[auth]`: who is an admin, and how log-ins and sessions behave.

use mailapi_model::EmailAddress;
use mailapi_service::Settings;

use super::mirror::mirror;
use super::values::{HumanDuration, Text};
use super::{ConfigError, at_least_one};

/// The fewest and the most rounds that SHA-512-crypt knows.
const ROUNDS: std::ops::RangeInclusive<u32> = 1_000..=999_999_999;

mirror!(
    /// The section.
    Auth of Settings {
        session_inactivity: HumanDuration,
        session_lifetime: HumanDuration,
        ended_sessions_kept: HumanDuration,
        login_attempts: u32,
        login_lockout: HumanDuration,
        login_addresses: usize,
        password_rounds: u32,
        concurrent_hashes: usize,
    } with {
        admins: Vec<Text<EmailAddress>> = Vec::new(),
    }
);

impl Auth {
    /// The mailboxes whose owners are admins.
    pub(super) fn admins(&self) -> impl Iterator<Item = EmailAddress> {
        self.admins.iter().map(|Text(admin)| admin.clone())
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
