//! `[auth]`: admins, logins and sessions.

use mailapi_model::EmailAddress;
use mailapi_service::Settings;

use super::mirror::mirror;
use super::values::{HumanDuration, Text};
use super::{ConfigError, at_least_one, longer_than_nothing};

mirror!(
    /// The section.
    Auth of Settings {
        session_inactivity: HumanDuration,
        session_lifetime: HumanDuration,
        login_attempts: u32,
        login_lockout: HumanDuration,
        require_app_passwords: bool,
    } with {
        admins: Vec<Text<EmailAddress>> = Vec::new(),
    }
);

impl Auth {
    /// Returns the mailboxes whose owners are admins.
    pub(super) fn admins(&self) -> impl Iterator<Item = EmailAddress> {
        self.admins.iter().map(|Text(admin)| admin.clone())
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least_one("auth.login_attempts", self.login_attempts.into())?;
        // With a duration of zero, a session would end before its first request.
        longer_than_nothing("auth.session_inactivity", self.session_inactivity)?;
        longer_than_nothing("auth.session_lifetime", self.session_lifetime)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn sessions_without_a_lifetime_are_refused() {
        let refused = |change: fn(&mut Auth)| {
            let mut auth = Auth::default();
            change(&mut auth);
            auth.check().unwrap_err().to_string()
        };
        assert_eq!(
            refused(|auth| auth.session_inactivity = HumanDuration(Duration::ZERO)),
            "auth.session_inactivity: must be greater than 0"
        );
        assert_eq!(
            refused(|auth| auth.session_lifetime = HumanDuration(Duration::ZERO)),
            "auth.session_lifetime: must be greater than 0"
        );
        assert_eq!(Auth::default().check(), Ok(()));
    }
}
