//! Settings of the delivery agent.

use std::time::Duration;

use mailapi_model::SharedSecret;
use mailapi_smtp::client::TlsPolicy;
use mailapi_smtp_client::TimeLimits;
use mailapi_tls::Trust;

use crate::dsn::RETURNED_HEADER_BYTES;

/// The limits that RFC 5321 section 4.5.3.2 recommends at least.
const TIME_LIMITS: TimeLimits = TimeLimits {
    // A host that is down should not hold back the next one.
    connect: Duration::from_secs(30),
    greeting: Duration::from_mins(5),
    // Longer than all its steps together.
    setup: Duration::from_hours(1),
    write: Duration::from_mins(3),
    reply: Duration::from_mins(10),
    final_reply: Duration::from_mins(10),
    message: Duration::from_mins(30),
};

/// Settings of the delivery agent. `default()` sets the defaults named at each field.
#[derive(Debug, Clone)]
pub struct DeliveryAgentSettings {
    /// Server for all outbound mail. Default: none; the recipients' servers are looked up.
    pub relay: Option<Relay>,
    /// Port of those servers. Default 25.
    pub port: u16,
    /// Port of the hosts of MTA-STS policies. Default 443.
    pub policy_port: u16,
    /// Trusted issuers of the certificates that a policy requires. Default: those of the system.
    pub trust: Trust,
    /// Whether a server may have a loopback address. Default: no, so that a foreign DNS record cannot direct
    /// us to ourselves.
    pub allow_loopback: bool,
    /// Delays after the first, second, … failed attempt; the last one repeats. Default 5, 10, 20, 40 minutes,
    /// then 1, 2 and 4 hours (RFC 5321 section 4.5.4.1 recommends at least 30 minutes in general).
    pub retry_intervals: Vec<Duration>,
    /// Maximum random reduction of a delay in percent, so that mail that failed together is not retried together.
    /// Default 10.
    pub retry_jitter_percent: u32,
    /// Message age at which the sender gets a delay notice, unless NOTIFY excludes it. Default 4 hours.
    pub delay_notice_after: Duration,
    /// Maximum number of connections, slow ones not counted. Default 20.
    pub max_connections: usize,
    /// Time after which a delivery is slow: it no longer keeps mail to other servers waiting. Default 5 s.
    pub slow_after: Duration,
    /// Maximum number of connections to the servers of one domain, or to the relay. Default 5.
    pub max_connections_per_destination: usize,
    /// Maximum number of messages per minute to one domain, or to the relay; 0 means no limit. Default 0.
    pub messages_per_minute_per_destination: u32,
    /// Maximum number of messages per connection. Default 100.
    pub max_messages_per_connection: usize,
    /// Maximum number of recipients per transaction; further recipients get another transaction. Default 100,
    /// which every server must accept (RFC 5321 section 4.5.3.1.8).
    pub max_recipients: usize,
    /// Maximum number of server addresses per attempt. Default 5.
    pub max_addresses: usize,
    /// Maximum number of claimed recipients that wait for a connection. Default 2,000.
    pub max_claimed: usize,
    /// How long recipients of a busy destination are deferred while connections are free for others. Default
    /// 1 minute.
    pub busy_pause: Duration,
    /// Duration of a claim; must be longer than the time-out of a message. Default 1 hour.
    pub lease: Duration,
    /// Time limits of a connection. The limit of a whole message must be shorter than the lease.
    pub time_limits: TimeLimits,
    /// Maximum size in bytes of the header block in a notice. Default 64 KiB.
    pub max_returned_header_bytes: usize,
    /// Maximum size in bytes of a message that is returned as a whole on its sender's request. Default 1
    /// MiB.
    pub max_returned_message_bytes: u64,
    /// Maximum pause of the delivery loop. Default 1 hour; new mail wakes it earlier.
    pub longest_pause: Duration,
    /// Pause after a database failure. Default 5 s.
    pub failure_pause: Duration,
    /// Initial pause before a failed record is retried; it doubles each time. Default 250 ms.
    pub first_record_pause: Duration,
    /// Maximum of that pause. Default 1 minute.
    pub longest_record_pause: Duration,
    /// Time after the shutdown signal in which active transmissions may finish. Default 10 s.
    pub grace: Duration,
}

impl DeliveryAgentSettings {
    /// The longest possible time until the next attempt, with a margin for the pace of a destination and for leases.
    pub(super) fn longest_wait(&self) -> Duration {
        let waits = self.retry_intervals.iter().chain([&self.busy_pause, &self.failure_pause]);
        waits.max().copied().unwrap_or_default() + self.lease
    }
}

impl Default for DeliveryAgentSettings {
    fn default() -> Self {
        let minutes = Duration::from_mins;
        Self {
            relay: None,
            port: 25,
            policy_port: 443,
            trust: Trust::System,
            allow_loopback: false,
            retry_intervals: [5, 10, 20, 40, 60, 120, 240].map(minutes).to_vec(),
            retry_jitter_percent: 10,
            delay_notice_after: minutes(4 * 60),
            max_connections: 20,
            slow_after: Duration::from_secs(5),
            max_connections_per_destination: 5,
            messages_per_minute_per_destination: 0,
            max_messages_per_connection: 100,
            max_recipients: 100,
            max_addresses: 5,
            max_claimed: 2_000,
            busy_pause: minutes(1),
            lease: minutes(60),
            time_limits: TIME_LIMITS,
            max_returned_header_bytes: RETURNED_HEADER_BYTES,
            max_returned_message_bytes: 1024 * 1024,
            longest_pause: minutes(60),
            failure_pause: Duration::from_secs(5),
            first_record_pause: Duration::from_millis(250),
            longest_record_pause: minutes(1),
            grace: Duration::from_secs(10),
        }
    }
}

/// A server for all outbound mail (smarthost).
#[derive(Debug, Clone)]
pub struct Relay {
    /// Host name or IP address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// TLS mode of the connection. With `Required` and `Implicit`, the certificate must be valid for the host name;
    /// with `WhenOffered`, any certificate is accepted.
    pub tls: TlsPolicy,
    /// Trusted issuers, if the certificate is verified.
    pub trust: Trust,
    /// Login credentials. They are sent only over TLS, or to a loopback address.
    pub credentials: Option<RelayLogin>,
}

/// Login credentials for a relay.
#[derive(Debug, Clone)]
pub struct RelayLogin {
    /// User name.
    pub username: String,
    /// Password.
    pub password: SharedSecret,
}

impl Relay {
    /// Returns a relay with opportunistic TLS and without credentials.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port, tls: TlsPolicy::WhenOffered, trust: Trust::System, credentials: None }
    }

    pub(super) const fn is_verified(&self) -> bool {
        matches!(self.tls, TlsPolicy::Required | TlsPolicy::Implicit)
    }
}
