//! How the courier works.

use std::time::Duration;

use mailapi_model::SharedSecret;
use mailapi_tls::Trust;

use crate::dsn::RETURNED_HEADER_BYTES;

/// The settings of the courier. `default()` gives the defaults named at each field.
#[derive(Debug, Clone)]
pub struct DeliveryAgentSettings {
    /// The server that all mail for others goes to. Default: none, the recipients' own servers are looked up.
    pub relay: Option<Relay>,
    /// The port of those servers. Default 25.
    pub port: u16,
    /// Whether a server may be at a loopback address. Default: no, so that nobody's DNS can point us at ourselves.
    pub allow_loopback: bool,
    /// The waits after the first, second, … failed try; the last one repeats. Default 5, 10, 20, 40 minutes, then 1, 2
    /// and 4 hours (RFC 5321 section 4.5.4.1 wants at least 30 minutes on the whole).
    pub retry_intervals: Vec<Duration>,
    /// By how many per cent at most a wait is shortened at random, so that mail that failed together does not come
    /// back together. Default 10.
    pub retry_jitter_percent: u32,
    /// A sender gets a notice of a delay after this time, unless NOTIFY excludes it. Default 4 hours.
    pub delay_notice_after: Duration,
    /// Most connections at a time. Default 20.
    pub max_connections: usize,
    /// Most connections at a time to the servers of one domain, or to the relay. Default 5.
    pub max_connections_per_destination: usize,
    /// Most messages over one connection. Default 100.
    pub max_messages_per_connection: usize,
    /// Most recipients of one transaction; further ones follow in another. Default 100 (RFC 5321 section 4.5.3.1.8:
    /// every server takes as many).
    pub max_recipients: usize,
    /// Most addresses of a domain's servers that one try goes to. Default 5.
    pub max_addresses: usize,
    /// Most recipients that are claimed and wait for a connection. Default 2,000.
    pub max_claimed: usize,
    /// For how long recipients are put off that wait for a busy destination while connections are free for others.
    /// Default 1 minute.
    pub busy_pause: Duration,
    /// How long a claim lasts; longer than the time-out of a message. Default 1 hour.
    pub lease: Duration,
    /// How long it may take to connect. Default 30 s.
    pub connect_timeout: Duration,
    /// How long a server may take to greet and for the handshake. Default 5 minutes (RFC 5321 section 4.5.3.2.1).
    pub greeting_timeout: Duration,
    /// How long a server may take for a reply. Default 10 minutes, what the final dot is worth (RFC 5321 section
    /// 4.5.3.2.6).
    pub reply_timeout: Duration,
    /// How long a server may take to read a piece of a message. Default 3 minutes (RFC 5321 section 4.5.3.2.5).
    pub write_timeout: Duration,
    /// How long a message may take over all. Default 30 minutes.
    pub message_timeout: Duration,
    /// How much is read at once, in octets. Default 4 KiB.
    pub read_bytes: usize,
    /// How much of a header block a notice returns, in octets. Default 64 KiB.
    pub max_returned_header_bytes: usize,
    /// Up to how many octets a message is returned as a whole when its sender asks for it. Default 1 MiB.
    pub max_returned_message_bytes: u64,
    /// The longest sleep of the loop. Default 1 hour; it wakes up by itself for new mail.
    pub longest_pause: Duration,
    /// The pause after the database failed. Default 5 s.
    pub failure_pause: Duration,
    /// The pause before a result that could not be recorded is recorded again; it doubles each time. Default 250 ms.
    pub first_record_pause: Duration,
    /// The longest such pause. Default 1 minute.
    pub longest_record_pause: Duration,
    /// How long after the signal to stop the message on the wire may still take. Default 10 s.
    pub grace: Duration,
}

impl Default for DeliveryAgentSettings {
    fn default() -> Self {
        const fn minutes(count: u64) -> Duration {
            Duration::from_secs(count * 60)
        }
        Self {
            relay: None,
            port: 25,
            allow_loopback: false,
            retry_intervals: [5, 10, 20, 40, 60, 120, 240].map(minutes).to_vec(),
            retry_jitter_percent: 10,
            delay_notice_after: minutes(4 * 60),
            max_connections: 20,
            max_connections_per_destination: 5,
            max_messages_per_connection: 100,
            max_recipients: 100,
            max_addresses: 5,
            max_claimed: 2_000,
            busy_pause: minutes(1),
            lease: minutes(60),
            connect_timeout: Duration::from_secs(30),
            greeting_timeout: minutes(5),
            reply_timeout: minutes(10),
            write_timeout: minutes(3),
            message_timeout: minutes(30),
            read_bytes: 4 * 1024,
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

/// A server that takes all our mail for others (a smarthost).
#[derive(Debug, Clone)]
pub struct Relay {
    /// Its name or IP address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether the connection is encrypted.
    pub tls: RelayTls,
    /// Whom its certificate may come from, where it is verified.
    pub trust: Trust,
    /// What we log in with. They are sent only over TLS, or to a loopback address.
    pub credentials: Option<RelayLogin>,
}

/// Credentials for a relay.
#[derive(Debug, Clone)]
pub struct RelayLogin {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: SharedSecret,
}

impl Relay {
    /// A relay that is spoken to in the clear unless it offers TLS, without a log-in.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port, tls: RelayTls::WhenOffered, trust: Trust::System, credentials: None }
    }
}

/// Whether the connection to the relay is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayTls {
    /// No.
    Never,
    /// By STARTTLS when it is offered, whatever the certificate.
    WhenOffered,
    /// By STARTTLS, with a certificate of its name.
    Required,
    /// From the first octet (port 465, RFC 8314), with a certificate of its name.
    Implicit,
}

impl RelayTls {
    pub(super) const fn is_verified(self) -> bool {
        matches!(self, Self::Required | Self::Implicit)
    }
}
