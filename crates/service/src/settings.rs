//! Settings of the operations.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use mailapi_hosted_dns::AgentProgram;
use mailapi_model::{DraftLimits, EmailAddress};
use mailapi_webhooks::Trust;

use crate::domains::ServerKeys;
use crate::mail::InboundSettings;
use crate::stats::StatsLimits;

/// Domains that the public DNS never has: of the local machine (RFC 6761 section 6.3), of the local network (RFC 6762
/// section 3, RFC 8375), reserved by ICANN for private use (`internal`), and others in common use.
const LOCAL_DOMAINS: [&str; 6] = ["localhost", "local", "home.arpa", "internal", "localdomain", "lan"];

/// Whether other servers cannot resolve this host name. It is then in one of [`LOCAL_DOMAINS`], or is not fully
/// qualified (RFC 5321 section 2.3.5).
#[must_use]
pub fn is_local_name(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let is_within = |domain| host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    !host.contains('.') || LOCAL_DOMAINS.into_iter().any(is_within)
}

/// Settings of the operations.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Mailboxes whose owners are admins.
    pub admins: HashSet<EmailAddress>,
    /// The public name of the mail server, the target of MX records. In front of another mail server, it can be the
    /// name by which that server is reached.
    pub mail_host: String,
    /// Where mail programs on other machines log in.
    pub mail_programs: MailPrograms,
    /// The host by which other machines reach this server by HTTPS, at port 443. `None` if there is none.
    pub web_host: Option<String>,
    /// Time without use after which a session ends.
    pub session_inactivity: Duration,
    /// Time after the login at which a session ends, used or not.
    pub session_lifetime: Duration,
    /// Time during which an ended session is reported as expired; it is then deleted.
    pub ended_sessions_kept: Duration,
    /// Number of failed logins within [`Settings::login_lockout`] that lock an address.
    pub login_attempts: u32,
    /// Time for which an address stays locked.
    pub login_lockout: Duration,
    /// Maximum number of addresses whose failed logins are kept in memory.
    pub login_addresses: usize,
    /// Whether only app passwords are accepted at IMAP and submission, and no longer the mailbox's password.
    pub require_app_passwords: bool,
    /// The program that changes records at hosted DNS providers.
    pub dns_agent: AgentProgram,
    /// The keys of the certificate that the mail ports show, if mailapi orders it; `None` otherwise.
    pub server_keys: Option<Arc<dyn ServerKeys>>,
    /// Whether messages are analyzed for signs of fraud.
    pub security_analysis: bool,
    /// The name by which this installation signs the results of its checks of mail from outside (RFC 8601 section 2.5), if it
    /// removes forged ones.
    pub results_checker: Option<String>,
    /// Rounds of SHA-512-crypt for new passwords, within [`crate::auth::PASSWORD_ROUNDS`].
    pub password_rounds: u32,
    /// Maximum number of password hashes computed in parallel.
    pub concurrent_hashes: usize,
    /// Maximum number of sign-ups per hour for one domain, and by one client; zero disables sign-ups.
    pub signups_per_hour: u32,
    /// Mailbox quota of a new user in bytes, unless the request sets one; zero means unlimited.
    pub default_quota: u64,
    /// Mailbox quota of a sign-up in bytes until an admin approves the domain; zero means unlimited.
    pub signup_quota: u64,
    /// Time after which a domain without approval is deleted with its users.
    pub pending_domain_lifetime: Duration,
    /// Maximum number of API tokens of one mailbox, and of its sessions.
    pub tokens_per_mailbox: u32,
    /// Maximum number of messages that one mailbox sends per day (UTC); zero means unlimited.
    pub messages_per_day: u32,
    /// Maximum number of different recipients of one mailbox per day (UTC); zero means unlimited.
    pub recipients_per_day: u32,
    /// Limits on send requests.
    pub draft: DraftLimits,
    /// Maximum size of a message in bytes.
    pub max_message_bytes: usize,
    /// Time for which an `Idempotency-Key` is stored.
    pub idempotency_lifetime: Duration,
    /// Maximum time that a repeated request waits for the result of the first one.
    pub idempotency_wait: Duration,
    /// The name of the data directory, which one process uses at a time. Submissions that an earlier process on
    /// it left pending are no longer in progress. Needed if several data directories can share a database.
    pub node: Option<String>,
    /// Time after which a message that is still `pending` is looked up at the mail server.
    pub pending_grace: Duration,
    /// Maximum age of a message, counted from its submission, for which a bounce received as mail is accepted.
    pub bounce_lifetime: Duration,
    /// Maximum number of bounced addresses per message, among those that are known only from bounces.
    pub bounce_members: usize,
    /// Maximum number of delivery events read and stored in one step.
    pub feed_batch: usize,
    /// Age at which an event is deleted.
    pub event_retention: Duration,
    /// Age at which a new DKIM key is made for one that signs; `None` for never.
    pub dkim_rotate_after: Option<Duration>,
    /// Limits of statistics, and how they are updated.
    pub stats: StatsLimits,
    /// Number of callers in the cache.
    pub cached_callers: usize,
    /// Number of sending domains in the cache.
    pub cached_domains: usize,
    /// Total time that a response about users may spend on mailboxes that do not answer. In a list, one mailbox
    /// may take a quarter of it.
    pub quota_patience: Duration,
    /// Time after which a health check fails.
    pub health_timeout: Duration,
    /// Checks of mail from outside.
    pub inbound: InboundSettings,
    /// Which receivers webhooks may have.
    pub webhooks: WebhookSettings,
}

/// Where mail programs on other machines log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailPrograms {
    /// At the operator's own mail server, at ports that are not known here.
    Elsewhere,
    /// At the built-in mail server. A port is `None` if no other machine can log in there.
    BuiltIn {
        /// The port for sending, with STARTTLS.
        submission: Option<u16>,
        /// The port for sending, with TLS from the beginning.
        submissions: Option<u16>,
        /// The port for reading, with STARTTLS.
        imap: Option<u16>,
        /// The port for reading, with TLS from the beginning.
        imaps: Option<u16>,
    },
}

impl MailPrograms {
    /// On this machine alone.
    pub const NONE: Self = Self::BuiltIn { submission: None, submissions: None, imap: None, imaps: None };
}

/// Which receivers webhooks may have.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// Networks that are not public, but allowed.
    pub allow_networks: Vec<IpNet>,
    /// Whether an admin's webhook may have a receiver on this machine, also over `http`.
    pub loopback: bool,
    /// Which certificates of receivers are accepted.
    pub trust: Trust,
    /// How long a failed check of a user's receiver takes at least. It is the time limit of an exchange, so that the
    /// time does not describe the operator's network.
    pub failed_check: Duration,
}

impl Default for WebhookSettings {
    /// The settings of a server that listens on a loopback address, as it does by default.
    fn default() -> Self {
        Self {
            allow_networks: Vec::new(),
            loopback: true,
            trust: Trust::System,
            failed_check: mailapi_webhooks::TIME_LIMIT,
        }
    }
}

impl Settings {
    /// The quota of a new user.
    pub(crate) fn default_quota(&self) -> Option<u64> {
        Some(self.default_quota).filter(|bytes| *bytes > 0)
    }

    /// The quota of a new user after sign-up.
    pub(crate) fn signup_quota(&self) -> Option<u64> {
        Some(self.signup_quota).filter(|bytes| *bytes > 0)
    }
}

impl Default for Settings {
    fn default() -> Self {
        const MINUTE: Duration = Duration::from_secs(60);
        Self {
            admins: HashSet::new(),
            mail_host: "localhost".to_owned(),
            mail_programs: MailPrograms::NONE,
            web_host: None,
            session_inactivity: 10 * MINUTE,
            session_lifetime: 8 * 60 * MINUTE,
            ended_sessions_kept: 7 * 24 * 60 * MINUTE,
            login_attempts: 5,
            login_lockout: 15 * MINUTE,
            login_addresses: 100_000,
            require_app_passwords: false,
            dns_agent: AgentProgram::new("mailapi-dns", []),
            server_keys: None,
            security_analysis: false,
            results_checker: Some("localhost".to_owned()),
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
            idempotency_lifetime: 24 * 60 * MINUTE,
            idempotency_wait: Duration::from_secs(10),
            node: None,
            pending_grace: MINUTE,
            bounce_lifetime: 14 * 24 * 60 * MINUTE,
            bounce_members: 1000,
            feed_batch: 1000,
            event_retention: 30 * 24 * 60 * MINUTE,
            dkim_rotate_after: None,
            stats: StatsLimits::default(),
            cached_callers: 10_000,
            cached_domains: 10_000,
            quota_patience: Duration::from_secs(5),
            health_timeout: Duration::from_secs(2),
            inbound: InboundSettings::default(),
            webhooks: WebhookSettings::default(),
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
        for name in ["postfix.mail.svc.cluster.local", "MX.Internal.", "mx.lan", "mx.home.arpa", "home.arpa"] {
            assert!(is_local_name(name), "{name}");
        }
        for name in ["mx.example.org", "localhost.example.org", "example.test.", "mx.arpa", "mx.home.example.lan.org"] {
            assert!(!is_local_name(name), "{name}");
        }
    }
}
