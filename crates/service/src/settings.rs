//! What an operator decides about the operations.

use std::collections::HashSet;
use std::time::Duration;

use mailapi_model::{DraftLimits, EmailAddress};

use crate::stats::StatsLimits;

/// Whether other servers cannot find a host by this name: it means each machine itself (RFC 6761 section 6.3), or it is not
/// fully qualified (RFC 5321 section 2.3.5).
#[must_use]
pub fn is_local_name(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let (_, last) = host.rsplit_once('.').unwrap_or_default();
    last.is_empty() || ["localhost", "localdomain"].contains(&last)
}

/// How the operations behave.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Mailboxes whose owners are admins.
    pub admins: HashSet<EmailAddress>,
    /// The name under which the world knows our mail server: where MX records should point, and what HELO says.
    pub mail_host: String,
    /// A session ends when it was not used for this long.
    pub session_inactivity: Duration,
    /// A session ends this long after the log-in, used or not.
    pub session_lifetime: Duration,
    /// For this long after its end a session is told that it has expired; then it is forgotten.
    pub ended_sessions_kept: Duration,
    /// This many failed log-ins within [`Settings::login_lockout`] lock an address.
    pub login_attempts: u32,
    /// How long a locked address stays locked.
    pub login_lockout: Duration,
    /// The most addresses whose failed log-ins are remembered at once.
    pub login_addresses: usize,
    /// Rounds of SHA-512-crypt for new passwords, within [`crate::auth::PASSWORD_ROUNDS`].
    pub password_rounds: u32,
    /// The most password hashes that are computed at once.
    pub concurrent_hashes: usize,
    /// Maximum number of sign-ups for one domain, and by one client, within an hour; zero disables sign-ups.
    pub signups_per_hour: u32,
    /// Mailbox quota of a new user in octets, unless the request sets one; zero means unlimited.
    pub default_quota: u64,
    /// Mailbox quota of a sign-up in octets until an admin approves the domain; zero means unlimited.
    pub signup_quota: u64,
    /// A domain that is not approved within this time is deleted with its users.
    pub pending_domain_lifetime: Duration,
    /// Maximum number of API tokens of one mailbox, and of its sessions.
    pub tokens_per_mailbox: u32,
    /// Maximum number of messages that one mailbox sends within a day (UTC); zero means any number.
    pub messages_per_day: u32,
    /// Maximum number of different addresses that one mailbox sends to within a day; zero means any number.
    pub recipients_per_day: u32,
    /// What a send request may hold.
    pub draft: DraftLimits,
    /// The most octets of a message on the wire.
    pub max_message_bytes: usize,
    /// Whether the mail server keeps what it takes over in the account database's own file. It follows from which of
    /// them there are, and saves each message one wait for the disk.
    pub mail_in_store_file: bool,
    /// How long an `Idempotency-Key` is remembered.
    pub idempotency_lifetime: Duration,
    /// How long a repeated request waits for the answer of the first one.
    pub idempotency_wait: Duration,
    /// The name of the data directory, which one process uses at a time: what an earlier one was handing over to the mail
    /// server is no longer on its way there. Needed where several data directories can share a database.
    pub node: Option<String>,
    /// A message that is still `pending` after this long is looked up at the mail server.
    pub pending_grace: Duration,
    /// A notice that comes back as mail later than this after its message was submitted is not believed.
    pub bounce_lifetime: Duration,
    /// How many addresses behind the recipients of one message are believed to have bounced, of those that only a notice
    /// names.
    pub bounce_members: usize,
    /// The most delivery events that are read and stored in one step.
    pub feed_batch: usize,
    /// How far statistics reach, and how they are kept up to date.
    pub stats: StatsLimits,
    /// How many callers are remembered between requests.
    pub cached_callers: u64,
    /// How many sending domains are remembered between requests.
    pub cached_domains: u64,
    /// How long one answer about users waits for mailboxes that then tell nothing; in a list, one mailbox may take a
    /// quarter of it.
    pub quota_patience: Duration,
    /// A health check's result is given again for this long.
    pub health_cache: Duration,
    /// A health check that takes longer than this has failed.
    pub health_timeout: Duration,
}

impl Settings {
    /// The quota of a new user.
    pub(crate) fn default_quota(&self) -> Option<u64> {
        Some(self.default_quota).filter(|octets| *octets > 0)
    }

    /// The quota of a user who signs up.
    pub(crate) fn signup_quota(&self) -> Option<u64> {
        Some(self.signup_quota).filter(|octets| *octets > 0)
    }
}

impl Default for Settings {
    fn default() -> Self {
        const MINUTE: Duration = Duration::from_secs(60);
        Self {
            admins: HashSet::new(),
            mail_host: "localhost".to_owned(),
            session_inactivity: 10 * MINUTE,
            session_lifetime: 8 * 60 * MINUTE,
            ended_sessions_kept: 7 * 24 * 60 * MINUTE,
            login_attempts: 5,
            login_lockout: 15 * MINUTE,
            login_addresses: 100_000,
            password_rounds: 5000,
            concurrent_hashes: 2,
            signups_per_hour: 3,
            default_quota: 0,
            signup_quota: 100 * 1024 * 1024,
            pending_domain_lifetime: 7 * 24 * 60 * MINUTE,
            tokens_per_mailbox: 50,
            messages_per_day: 10_000,
            recipients_per_day: 10_000,
            draft: DraftLimits::default(),
            max_message_bytes: 25 * 1024 * 1024,
            mail_in_store_file: false,
            idempotency_lifetime: 24 * 60 * MINUTE,
            idempotency_wait: Duration::from_secs(10),
            node: None,
            pending_grace: MINUTE,
            bounce_lifetime: 14 * 24 * 60 * MINUTE,
            bounce_members: 1000,
            feed_batch: 1000,
            stats: StatsLimits::default(),
            cached_callers: 10_000,
            cached_domains: 10_000,
            quota_patience: Duration::from_secs(5),
            health_cache: Duration::from_secs(3),
            health_timeout: Duration::from_secs(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_others_cannot_find_is_local() {
        for name in ["localhost", "LocalHost.", "a.localhost", "localhost.localdomain", "mx", ""] {
            assert!(is_local_name(name), "{name}");
        }
        for name in ["mx.example.org", "localhost.example.org", "example.test."] {
            assert!(!is_local_name(name), "{name}");
        }
    }
}
