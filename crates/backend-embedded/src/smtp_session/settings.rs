//! Limits and time-outs of SMTP sessions.

use std::time::Duration;

use mailapi_smtp::server::{Config, MessageBudget, Role};

/// Limits of an SMTP session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmtpSettings {
    /// Maximum number of recipients of a message. Default 1,000 (RFC 5321 section 4.5.3.1.8 requires at least
    /// 100).
    pub max_recipients: usize,
    /// Maximum length of a command line in bytes. Default 2,048.
    pub max_line_bytes: usize,
    /// Maximum length of a line of an AUTH exchange in octets. Default 12,288 (RFC 4954 section 4).
    pub max_auth_line_bytes: usize,
    /// Maximum number of bad commands in a session. Default 20.
    pub max_errors: u32,
    /// Delay of each reply to a refused recipient after the first `SmtpSettings::FREE_REFUSALS` of the
    /// session. Refusals with 4xx, and those of an authenticated client, do not count. Default 1 s.
    pub refused_recipient_delay: Duration,
    /// Maximum number of Received header fields; more indicate a mail loop (RFC 5321 section 6.3). Default
    /// 50.
    pub max_hops: usize,
    /// Maximum header size in bytes of a message that is not in memory. A message with a longer header is
    /// refused. Default 1 MiB.
    pub max_header_bytes: usize,
    /// Time-out of an idle client. Default 5 minutes (RFC 5321 section 4.5.3.2.7).
    pub idle_timeout: Duration,
    /// Time limit of a session, so that a slow client cannot occupy a connection slot. Default 1 hour.
    pub session_timeout: Duration,
    /// Time-out of a write. Default 2 minutes.
    pub write_timeout: Duration,
    /// Size of one read in bytes. Default 16 KiB.
    pub read_bytes: usize,
}

impl Default for SmtpSettings {
    fn default() -> Self {
        Self {
            max_recipients: 1_000,
            max_line_bytes: 2_048,
            max_auth_line_bytes: 12_288,
            max_errors: 20,
            refused_recipient_delay: Duration::from_secs(1),
            max_hops: 50,
            max_header_bytes: 1024 * 1024,
            idle_timeout: Duration::from_secs(5 * 60),
            session_timeout: Duration::from_secs(60 * 60),
            write_timeout: Duration::from_secs(2 * 60),
            read_bytes: 16 * 1024,
        }
    }
}

impl SmtpSettings {
    /// Number of refusals per session without a delay: an address list has a few outdated entries.
    pub(crate) const FREE_REFUSALS: u32 = 10;

    /// Returns the delay of a refusal after `before` earlier ones.
    pub(crate) fn refusal_delay(&self, before: u32) -> Duration {
        if before < Self::FREE_REFUSALS { Duration::ZERO } else { self.refused_recipient_delay }
    }

    /// Returns the configuration of a protocol session.
    pub(crate) fn session(
        &self,
        hostname: &str,
        role: Role,
        tls_available: bool,
        max_message_bytes: usize,
        budget: MessageBudget,
    ) -> Config {
        let mut config = Config::new(hostname, role);
        config.tls_available = tls_available;
        config.max_message_bytes = max_message_bytes;
        config.max_recipients = self.max_recipients;
        config.max_line_bytes = self.max_line_bytes;
        config.max_auth_line_bytes = self.max_auth_line_bytes;
        config.max_errors = self.max_errors;
        config.budget = Some(budget);
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_refused_recipients_are_answered_at_once() {
        let settings = SmtpSettings::default();
        for (before, seconds) in [(0, 0), (9, 0), (10, 1), (99, 1)] {
            assert_eq!(settings.refusal_delay(before), Duration::from_secs(seconds), "{before}");
        }
    }
}
